#include "interposer/code/module_facts.hpp"

#include "schema/wire/data.capnp.h"

#include <boost/test/unit_test.hpp>
#include <capnp/message.h>
#include <capnp/serialize.h>

#include <cstring>
#include <string>
#include <vector>

using namespace vgpu;
using namespace vgpu::interposer;

namespace {

std::vector<std::byte> bytes_of(capnp::MessageBuilder& from) {
  auto words = capnp::messageToFlatArray(from);
  std::vector<std::byte> out(words.asBytes().size());
  std::memcpy(out.data(), words.begin(), out.size());
  return out;
}

struct told_module {
  // A context needs a session; nothing looks into this one.
  alignas(context) std::byte owner[sizeof(context)];
  module into{*reinterpret_cast<context*>(owner)};

  /// Returns why the facts of a kernel with this parameter are refused; empty
  /// where they are not.
  std::string why(std::uint32_t offset, std::uint32_t size) {
    capnp::MallocMessageBuilder message;
    auto kernel = message.initRoot<wire::ModuleFacts>().initKernels(1)[0];
    kernel.setName("k");
    auto parameter = kernel.initParameters(1)[0];
    parameter.setOffset(offset);
    parameter.setSize(size);
    auto got = read_module_facts(bytes_of(message), into);
    return got ? "" : got.why().what;
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(facts_of_modules, told_module)

BOOST_AUTO_TEST_CASE(parameters_end_within_their_block) {
  BOOST_TEST(why(8, 16) == "");
  BOOST_TEST(into.functions.at(0)->parameter_bytes == 24u);
  for (auto [offset, size] : {std::pair{0xffff'fff0u, 0x20u},
                              {0x20u, 0xffff'fff0u},
                              {0xffff'ffffu, 0xffff'ffffu}})
    BOOST_TEST(why(offset, size).find("outside of its block") !=
               std::string::npos);
}

BOOST_AUTO_TEST_CASE(lists_that_take_no_space_are_limited) {
  // A list of 2^20 structs of no words: a segment table, the root with two
  // pointers, and the list's pointer and tag.
  const std::uint64_t words[] = {
      std::uint64_t{4} << 32,
      std::uint64_t{2} << 48, // root: two pointers
      (std::uint64_t{1} << 2) | 1 | (std::uint64_t{7} << 32), // list of structs
      0,
      std::uint64_t{1} << 20 << 2, // tag: 2^20 of no words
  };
  auto bytes = std::as_bytes(std::span{words});
  BOOST_TEST(!read_module_facts(bytes, into).ok());
  BOOST_TEST(into.functions.empty());
}

BOOST_AUTO_TEST_CASE(nothing_is_no_answer) {
  BOOST_TEST(!read_module_facts({}, into).ok());
}

BOOST_AUTO_TEST_SUITE_END()
