// The table of the data plane's heads against its schema.
#include "actors/link/data_head.hpp"

#include "schema/wire/data.capnp.h"

#include <boost/test/unit_test.hpp>

#include <capnp/message.h>
#include <capnp/schema.h>
#include <capnp/serialize.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(data_heads)

BOOST_AUTO_TEST_CASE(every_member_of_the_union_has_a_row) {
  std::set<std::string> members;
  for (auto x : capnp::Schema::from<vgpu::wire::DataHead>().getUnionFields())
    members.insert(x.getProto().getName().cStr());
  auto rows = std::apply(
      [](const auto&... x) {
        return std::set<std::string>{std::string{x.name.data()}...};
      },
      vgpu::data::heads);
  BOOST_TEST(rows == members, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_answer_keeps_its_place) {
  using vgpu::data::answer;
  for (auto where :
       {answer::place::none, answer::place::arena, answer::place::output,
        answer::place::host_call, answer::place::times}) {
    answer x;
    x.number = 3;
    x.where = where;
    auto got = vgpu::data::decode(vgpu::data::encode({{1}, {2}, x}));
    BOOST_REQUIRE(got.ok());
    BOOST_CHECK(std::get<answer>(got->body).where == where);
    BOOST_TEST(std::get<answer>(got->body).number == 3u);
  }
}

BOOST_AUTO_TEST_CASE(an_unknown_wish_is_refused) {
  vgpu::data::attach x;
  x.on_divergence = vgpu::control::divergence::error;
  auto words = vgpu::data::encode({{1}, {2}, x});
  BOOST_TEST(vgpu::data::decode(words).ok());
  capnp::FlatArrayMessageReader reader{
      {reinterpret_cast<const capnp::word*>(words.data()), words.size()}};
  capnp::MallocMessageBuilder message;
  message.setRoot(reader.getRoot<vgpu::wire::DataHead>());
  message.getRoot<vgpu::wire::DataHead>().getAttach().setOnDivergence(
      static_cast<vgpu::wire::Divergence>(7));
  auto flat = capnp::messageToFlatArray(message);
  std::vector<std::uint64_t> unknown(flat.size());
  std::memcpy(unknown.data(), flat.begin(), 8 * flat.size());
  BOOST_TEST(!vgpu::data::decode(unknown).ok());
}

BOOST_AUTO_TEST_SUITE_END()
