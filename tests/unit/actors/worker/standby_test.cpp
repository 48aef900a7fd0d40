// A standby: the prepared worker that makes a session's objects with a
// snapshot, and serves the session when its worker has died.
#include "actors/worker/checkpoint/session_standby.hpp"
#include "tests/unit/actors/prepared_worker.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>

using namespace vgpu;
using namespace vgpu::test;
using namespace std::chrono_literals;
using control::standby_news;
namespace data_of = boost::unit_test::data;

namespace {

/// A session whose node has a standby for it, or none.
struct stood_by : world {
  std::optional<prepared_worker> target;
  std::atomic<bool> answers = true;

  stood_by() {
    protect = control::protection::snapshot;
    preparation = [](auto& to, auto session, auto file, auto ring) {
      return prepare_next_worker(to, session, file, connect_abstract,
                                 std::move(ring));
    };
    tell_of_standby = [this](standby_news x) { heard(x); };
  }

  /// Answers as a node does.
  void heard(standby_news x) {
    std::lock_guard guard{lock_};
    news_.push_back(x);
    if (x == standby_news::wanted && answers)
      answer();
  }
  void answer() {
    caf::anon_send(caf::actor_cast<vgpu_actor>(actors.back()),
                   standby_changed{target ? target->next : next_worker{}});
  }
  std::vector<standby_news> news() {
    std::lock_guard guard{lock_};
    return news_;
  }
  bool is_heard(standby_news what) {
    return await("news of the standby",
                 [&] { return std::ranges::count(news(), what) != 0; });
  }
  /// Waits until a snapshot covers every call made so far.
  bool covered() {
    auto wanted = area.header().tail.load();
    return await("a snapshot covers every call",
                 [&] { return area.header().covered.load() >= wanted; });
  }

private:
  std::mutex lock_;
  std::vector<standby_news> news_;
};

} // namespace

BOOST_AUTO_TEST_SUITE(standby_workers)

BOOST_DATA_TEST_CASE_F(stood_by, it_serves_the_session_after_a_death,
                       data_of::make(both), where) {
  target.emplace(make_device());
  auto first = begin(transport::automatic, where.same_host);
  add(3);
  BOOST_TEST(read_counter() == 3u);
  BOOST_TEST(is_heard(standby_news::made));
  BOOST_CHECK((news() == std::vector{standby_news::wanted, standby_news::making,
                                     standby_news::made}));
  add(4);
  answers = false;
  kill(first);
  ready = target->ready();
  BOOST_TEST(ready->awaits_state());
  // Elsewhere it would get all of the state from the client.
  auto file = target->desk->take_contents();
  BOOST_TEST(static_cast<bool>(file) == !where.same_host);
  if (file)
    former_contents = std::make_shared<const unique_fd>(std::move(file));
  lease(2, start_worker(2, where.same_host));
  BOOST_TEST(read_counter() == 7u);
}

BOOST_DATA_TEST_CASE_F(stood_by, without_one_snapshots_are_taken_as_before,
                       data_of::make(both), where) {
  begin(transport::automatic, where.same_host);
  add(3);
  BOOST_TEST(read_counter() == 3u);
  BOOST_TEST(covered());
  add(3);
  BOOST_TEST(covered());
  // The node is not asked with each snapshot.
  BOOST_CHECK((news() == std::vector{standby_news::wanted}));
}

BOOST_FIXTURE_TEST_CASE(calls_are_executed_until_the_node_answers, stood_by) {
  answers = false;
  variable = std::make_shared<std::uint32_t>(); // so a test comes first
  target.emplace(make_device());
  begin(transport::automatic, true);
  add(3);
  BOOST_TEST(is_heard(standby_news::wanted));
  add(4);
  BOOST_TEST(read_counter() == 7u);
  answer();
  BOOST_TEST(is_heard(standby_news::made));
  BOOST_TEST(covered());
}

/// A snapshot is needed first. Without variables of a driver no test of where
/// they lie has to come before it.
BOOST_FIXTURE_TEST_CASE(a_snapshot_does_not_wait_for_the_standby, stood_by) {
  answers = false;
  target.emplace(make_device());
  begin(transport::automatic, true);
  add(3);
  BOOST_TEST(is_heard(standby_news::wanted));
  BOOST_TEST(covered());
  answer();
  BOOST_TEST(is_heard(standby_news::made));
  BOOST_TEST(read_counter() == 3u);
}

BOOST_FIXTURE_TEST_CASE(one_whose_variables_lie_elsewhere_is_useless,
                        stood_by) {
  variable = std::make_shared<std::uint32_t>();
  auto other = make_device();
  dynamic_cast<plain_device&>(*other).place_variable(
      std::make_shared<std::uint32_t>());
  target.emplace(std::move(other));
  begin(transport::automatic, true);
  add(3);
  BOOST_TEST(is_heard(standby_news::useless));
  add(3);
  BOOST_TEST(read_counter() == 6u);
  BOOST_TEST(std::ranges::count(news(), standby_news::made) == 0);
}

BOOST_AUTO_TEST_CASE(its_objects_must_be_in_the_newest_snapshot) {
  std::vector<standby_news> told;
  session_standby x{[&](auto news) { told.push_back(news); }};
  auto now = session_standby::clock::now();
  BOOST_TEST(x.wanted(now, false));
  BOOST_TEST(x.awaited());
  x.covered(9); // there is none yet
  x.changed({"socket", 1}, now);
  BOOST_TEST(x.begin_making().socket == "socket");
  x.covered(9); // nobody knows what it has made
  x.made(10);
  x.covered(9);
  BOOST_CHECK(
      (told == std::vector{standby_news::wanted, standby_news::making}));
  x.covered(10);
  BOOST_CHECK((told.back() == standby_news::made));
  BOOST_TEST(!x.wanted(now, false)); // it exists
}

BOOST_AUTO_TEST_CASE(a_snapshot_may_be_complete_before_the_objects_are_made) {
  std::vector<standby_news> told;
  session_standby x{[&](auto news) { told.push_back(news); }};
  auto now = session_standby::clock::now();
  BOOST_TEST(x.wanted(now, false));
  x.changed({"socket", 1}, now);
  BOOST_TEST(x.is_ready());
  BOOST_TEST(x.begin_making().socket == "socket");
  BOOST_TEST(!x.is_ready());
  x.covered(12);
  BOOST_CHECK((told.back() == standby_news::making));
  x.made(10);
  BOOST_CHECK((told.back() == standby_news::made));
}

BOOST_AUTO_TEST_CASE(another_one_is_asked_for_after_a_while) {
  auto asked = 0;
  session_standby x{
      [&](auto news) { asked += news == standby_news::wanted ? 1 : 0; }};
  auto now = session_standby::clock::now();
  BOOST_TEST(x.wanted(now, false));
  x.changed({}, now);
  BOOST_TEST(!x.wanted(now + 1s, false));
  BOOST_TEST(x.wanted(now + 1min, false));
  x.give_up(now + 1min);
  x.changed({"late", 1}, now + 1min); // the node had answered before
  BOOST_TEST(!x.begin_making());
  BOOST_TEST(!x.wanted(now + 1min + 1s, false));
  BOOST_TEST(asked == 2);
}

/// Modules that were loaded since would be loaded by a recovery.
BOOST_AUTO_TEST_CASE(one_that_lacks_modules_is_replaced_after_a_while) {
  std::vector<standby_news> told;
  session_standby x{[&](auto news) { told.push_back(news); }};
  auto now = session_standby::clock::now();
  BOOST_TEST(x.wanted(now, false));
  x.changed({"socket", 1}, now);
  BOOST_TEST(x.begin_making().socket == "socket");
  x.made(10);
  BOOST_TEST(!x.wanted(now + 1min, true)); // it may get what it lacks
  x.covered(10);
  BOOST_TEST(!x.wanted(now + 1s, true));
  BOOST_TEST(!x.wanted(now + 1min, false));
  BOOST_TEST(x.wanted(now + 1min, true));
  BOOST_TEST(x.awaited());
  BOOST_CHECK((told.back() == standby_news::wanted));
  x.changed({"other", 2}, now + 1min);
  BOOST_TEST(x.begin_making().socket == "other");
}

BOOST_AUTO_TEST_SUITE_END()
