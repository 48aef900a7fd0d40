// From which point of a replay on the program knew that work was done.
#include "actors/worker/session/known_work.hpp"

#include <boost/test/unit_test.hpp>

using namespace vgpu;

namespace {

struct known_fixture {
  static constexpr known_work::place a{0, {10}}, b{0, {11}};
  static constexpr known_work::event_place event{0, {1}};
  static constexpr event_id mark{100}, copy{101};
  known_work known;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(known_works, known_fixture)

BOOST_AUTO_TEST_CASE(work_is_known_at_the_end_of_the_last_call_before_it) {
  known.opens(a, call_number{8});
  known.opens(a, call_number{16});
  known.learn_later(a, mark);
  BOOST_TEST(known.ends(call_number{8}).known.empty());
  BOOST_TEST(known.any());
  auto freed = known.ends(call_number{16});
  BOOST_TEST_REQUIRE(freed.known.size() == 1u);
  BOOST_TEST((freed.known[0] == known_work::event_place{0, mark}));
  BOOST_TEST(!known.any());
}

BOOST_AUTO_TEST_CASE(a_stream_that_follows_a_held_one_is_held) {
  known.opens(a, call_number{8});
  BOOST_TEST(!known.holds(b));
  known.follows(b, a);
  BOOST_TEST(known.holds(b));
  known.learn_later(b, mark);
  BOOST_TEST(known.ends(call_number{8}).known.size() == 1u);
  BOOST_TEST(!known.holds(b));
}

BOOST_AUTO_TEST_CASE(a_record_in_a_held_stream_is_held_with_its_copy) {
  known.opens(a, call_number{8});
  BOOST_TEST(!known.recorded(event, a, copy));
  known.follows(b, event);
  BOOST_TEST(known.holds(b));
  known.learn_later(event);
  // The program may record the event again, and wait for it again.
  BOOST_TEST(!known.recorded(event, a, std::nullopt));
  known.learn_later(event);
  auto freed = known.ends(call_number{8});
  BOOST_TEST_REQUIRE(freed.known.size() == 1u);
  BOOST_TEST((freed.known[0] == known_work::event_place{0, copy}));
  BOOST_TEST(freed.unused.empty());
}

BOOST_AUTO_TEST_CASE(a_copy_that_nobody_needs_is_given_back) {
  known.opens(a, call_number{8});
  BOOST_TEST(!known.recorded(event, a, copy));
  auto unused = known.recorded(event, a, mark);
  BOOST_TEST((unused == copy));
  auto freed = known.ends(call_number{8});
  BOOST_TEST_REQUIRE(freed.unused.size() == 1u);
  BOOST_TEST((freed.unused[0] == known_work::event_place{0, mark}));
  BOOST_TEST(!known.holds(event));
}

BOOST_AUTO_TEST_SUITE_END()
