#include "actors/client/guest_codec.hpp"
#include "schema/base/cuda_fault.hpp"

#include "schema/wire/guest.capnp.h"

#include <boost/test/unit_test.hpp>
#include <capnp/serialize.h>

#include <array>
#include <cstring>

using namespace vgpu;

namespace {

/// Returns the greeting of a program whose libcuda.so.1 has this version.
std::vector<std::uint64_t> greeting_of(std::uint16_t version) {
  capnp::MallocMessageBuilder message;
  auto hello = message.initRoot<wire::GuestHello>();
  hello.setVersion(version);
  hello.initProgram().setName("program");
  auto flat = capnp::messageToFlatArray(message);
  std::vector<std::uint64_t> words(flat.size());
  std::memcpy(words.data(), flat.begin(), flat.asBytes().size());
  return words;
}

} // namespace

BOOST_AUTO_TEST_SUITE(greetings)

BOOST_AUTO_TEST_CASE(a_program_of_this_version_is_accepted) {
  auto got = guest::decode_hello(greeting_of(1));
  BOOST_REQUIRE(got.ok());
  BOOST_TEST(got->program.name == "program");
}

BOOST_AUTO_TEST_CASE(a_program_of_another_version_is_refused_by_name) {
  for (auto version : std::array<std::uint16_t, 3>{0, 2, 65'535}) {
    auto got = guest::decode_hello(greeting_of(version));
    BOOST_REQUIRE(!got.ok());
    BOOST_TEST((cuda_code(got.why()) == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH));
    BOOST_TEST(got.why().what.find("version " + std::to_string(version)) !=
               std::string::npos);
  }
}

BOOST_AUTO_TEST_SUITE_END()
