#include "tests/e2e/late_frames.hpp"

#include <boost/test/unit_test.hpp>

using namespace vgpu::test;
using namespace std::chrono_literals;

namespace {

struct road {
  late_frames::clock::time_point now{1h};
  late_frames frames{100};

  void send(unsigned char x, delay takes) {
    frames.push({std::byte{x}}, takes, now);
  }

  /// Stands for "no frame has arrived".
  static constexpr auto none = 256u;
  unsigned arrived() {
    auto x = frames.pop(now);
    return x ? std::to_integer<unsigned>(x->at(0)) : none;
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(late_frames_suite, road)

BOOST_AUTO_TEST_CASE(a_frame_without_delay_arrives_at_once) {
  send(7, {});
  BOOST_TEST(arrived() == 7u);
  BOOST_TEST(arrived() == none);
  BOOST_TEST(!frames.next());
}

BOOST_AUTO_TEST_CASE(a_frame_arrives_after_its_delay) {
  send(7, {300ms});
  BOOST_CHECK(frames.next() == now + 300ms);
  now += 299ms;
  BOOST_TEST(arrived() == none);
  now += 1ms;
  BOOST_TEST(arrived() == 7u);
}

BOOST_AUTO_TEST_CASE(jitter_is_bounded_and_keeps_the_order) {
  auto sent = now;
  for (unsigned char i = 0; i < 100; ++i)
    send(i, {40ms, 10ms});
  auto first = *frames.next() - sent;
  BOOST_CHECK(first >= 30ms && first <= 50ms);
  now += 50ms;
  for (auto i = 0u; i < 100; ++i)
    BOOST_TEST(arrived() == i);
}

BOOST_AUTO_TEST_CASE(frames_have_different_delays) {
  std::vector<late_frames::clock::duration> late;
  for (auto i = 0; i < 20; ++i) {
    send(1, {40ms, 10ms});
    late.push_back(*frames.next() - now);
    now += 1s;
    BOOST_TEST(arrived() == 1u);
  }
  auto [least, most] = std::minmax_element(late.begin(), late.end());
  BOOST_CHECK(*most - *least > 5ms);
}

BOOST_AUTO_TEST_CASE(a_link_that_becomes_faster_keeps_the_order) {
  send(1, {300ms});
  send(2, {});
  BOOST_TEST(arrived() == none);
  now += 300ms;
  BOOST_TEST(arrived() == 1u);
  BOOST_TEST(arrived() == 2u);
}

BOOST_AUTO_TEST_CASE(a_frame_without_room_is_dropped) {
  for (unsigned char i = 0; i < 103; ++i)
    send(i, {1ms});
  BOOST_TEST(frames.dropped() == 3u);
  now += 1ms;
  for (auto i = 0u; i < 100; ++i)
    BOOST_TEST(arrived() == i);
  send(103, {});
  BOOST_TEST(arrived() == 103u);
}

BOOST_AUTO_TEST_SUITE_END()
