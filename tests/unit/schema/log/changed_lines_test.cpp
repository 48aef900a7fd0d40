// The changes that two processes send each other of memory that both write.
#include "schema/log/changed_lines.hpp"

#include <boost/test/unit_test.hpp>

#include <numeric>

using namespace vgpu;

namespace {

constexpr auto line = changed_line::bytes;
constexpr device_address place = 0x6800'0000'1000;

struct memory_of_lines {
  std::vector<std::byte> now = std::vector<std::byte>(200 * line);
  std::vector<std::byte> before = now;

  std::vector<changed_line> take(bool all = false) {
    std::vector<changed_line> out;
    take_changes(now, before, place, all, out);
    return out;
  }
};

} // namespace

BOOST_AUTO_TEST_SUITE(changed_lines)

BOOST_FIXTURE_TEST_CASE(unchanged_lines_are_not_sent, memory_of_lines) {
  BOOST_TEST(take().empty());
}

BOOST_FIXTURE_TEST_CASE(changed_bytes_are_sent_once, memory_of_lines) {
  now[3] = std::byte{1};
  now[line - 1] = std::byte{2};
  now[150 * line + 8] = std::byte{3};
  auto told = take();
  BOOST_REQUIRE(told.size() == 2u);
  BOOST_TEST(told[0].address == place);
  BOOST_TEST(told[0].changed == ((1ull << 3) | (1ull << 63)));
  BOOST_TEST(told[1].address == place + 150 * line);
  BOOST_TEST(told[1].changed == 1ull << 8);
  BOOST_TEST((now == before));
  BOOST_TEST(take().empty());
}

BOOST_FIXTURE_TEST_CASE(all_lines_are_sent_when_the_peer_has_none,
                        memory_of_lines) {
  now[5] = std::byte{9};
  auto told = take(true);
  BOOST_REQUIRE(told.size() == now.size() / line);
  for (auto& x : told)
    BOOST_TEST(x.changed == ~0ull);
  BOOST_TEST((now == before));
}

BOOST_FIXTURE_TEST_CASE(the_sent_changes_make_the_other_side_equal,
                        memory_of_lines) {
  std::vector<std::byte> other = now;
  std::vector<changed_line> told;
  for (int round = 1; round < 20; ++round) {
    for (auto i = static_cast<std::size_t>(round); i < now.size();
         i += static_cast<std::size_t>(7 * round))
      now[i] = static_cast<std::byte>(i * static_cast<std::size_t>(round));
    for (auto& x : take())
      each_change(x, [&](std::size_t i, std::byte value) {
        other[x.address - place + i] = value;
      });
    BOOST_TEST((other == now));
  }
}

BOOST_FIXTURE_TEST_CASE(an_incomplete_line_is_ignored, memory_of_lines) {
  now[0] = std::byte{1};
  now[line] = std::byte{2};
  auto told = take();
  auto bytes = std::as_bytes(std::span{told});
  BOOST_TEST(lines_of(bytes).size() == 2u);
  BOOST_TEST(lines_of(bytes.first(bytes.size() - 1)).size() == 1u);
  BOOST_TEST(lines_of(bytes.first(sizeof(changed_line) - 1)).empty());
  // The bytes need not be aligned.
  std::vector<std::byte> odd(bytes.size() + 1);
  std::copy(bytes.begin(), bytes.end(), odd.begin() + 1);
  auto read = lines_of(std::span{odd}.subspan(1));
  BOOST_REQUIRE(read.size() == 2u);
  BOOST_TEST(read[1].address == place + line);
  BOOST_TEST((read[1].now[0] == std::byte{2}));
}

BOOST_AUTO_TEST_SUITE_END()
