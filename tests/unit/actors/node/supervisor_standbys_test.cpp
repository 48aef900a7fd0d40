// The standbys that a node keeps for its sessions.
#include "tests/unit/actors/node/supervisor_fixture.hpp"

#include <csignal>

using namespace vgpu;
using namespace vgpu::control;
using namespace std::chrono_literals;
using namespace vgpu::test::supervised;
using vgpu::test::take;

namespace {

using signals = std::vector<std::pair<std::uint64_t, int>>;

/// Keeps standbys of 1 GiB each.
struct keeper : a_node {
  keeper() : a_node(8, gib) { join(); }

  void says(standby_news x) { worker_says(standby{{1}, {1}, x}); }

  /// Starts the standby of the running worker. Returns its tag.
  std::uint64_t stand_by() {
    auto before = children->starts.size();
    says(standby_news::wanted);
    BOOST_REQUIRE(children->starts.size() == before + 1);
    auto tag = children->starts.back().tag;
    tell(chief, child_started{tag, 1235, {}});
    to_workers.clear();
    worker_says(worker_prepared{{1}, {}, {"w-1", 6}}, "standby");
    auto got = take<worker_prepared>(to_workers, "w");
    BOOST_REQUIRE(got);
    BOOST_TEST(got->first.next.socket == "w-1");
    BOOST_TEST(!heard<worker_prepared>());
    return tag;
  }

  /// Returns why the worker has no standby.
  std::string answer(const std::string& peer = "w") {
    auto got = take<worker_prepared>(to_workers, peer);
    return got ? got->first.failure : "no answer";
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(standbys, keeper)

BOOST_AUTO_TEST_CASE(a_standby_gets_the_orders_after_a_death) {
  auto first = start();
  auto next = stand_by();
  says(standby_news::making);
  says(standby_news::made);
  ends(first, "signal 9", false);
  to_manager.clear();
  manager_says(stop_worker{{1}, {1}, "lost"});
  manager_says(order(2));
  BOOST_TEST(children->starts.size() == 2u);
  BOOST_TEST(children->inputs[next] == "2 4711 0 none\n");
  BOOST_TEST(children->signals.empty());
}

BOOST_AUTO_TEST_CASE(a_standby_with_objects_of_no_snapshot_is_not_used) {
  auto first = start();
  auto next = stand_by();
  says(standby_news::making);
  ends(first, "signal 9", false);
  manager_says(order(2));
  BOOST_TEST(children->starts.size() == 3u);
  BOOST_TEST(!children->inputs.contains(next));
  BOOST_CHECK((children->signals == signals{{next, SIGKILL}}));
}

BOOST_AUTO_TEST_CASE(a_standby_ends_with_its_session) {
  auto first = start();
  auto next = stand_by();
  ends(first, "exit 0", true);
  BOOST_CHECK((children->signals == signals{{next, SIGKILL}}));
}

BOOST_AUTO_TEST_CASE(a_standby_waits_for_no_session_that_went_elsewhere) {
  auto first = start();
  auto next = stand_by();
  ends(first, "signal 9", false);
  advance(9s);
  BOOST_TEST(children->signals.empty());
  advance(2s);
  BOOST_CHECK((children->signals == signals{{next, SIGKILL}}));
}

BOOST_AUTO_TEST_CASE(a_standby_makes_room_for_a_movement) {
  start();
  auto next = stand_by();
  manager_says(prepare_worker{{1}, {2}, {1}, gib});
  BOOST_TEST(children->starts.size() == 3u);
  BOOST_CHECK((children->signals == signals{{next, SIGKILL}}));
  BOOST_TEST(answer() == "its session moves");
  says(standby_news::wanted);
  BOOST_TEST(answer() == "it has a prepared worker");
}

BOOST_AUTO_TEST_CASE(a_standby_is_replaced_without_a_word) {
  auto first = start();
  auto outdated = stand_by();
  auto next = stand_by();
  BOOST_CHECK((children->signals == signals{{outdated, SIGKILL}}));
  ends(outdated, "signal 9", false);
  BOOST_TEST(answer() == "no answer"); // the worker waits for the next one
  ends(first, "signal 9", false);
  manager_says(order(2));
  BOOST_TEST(children->inputs.contains(next));
}

BOOST_AUTO_TEST_CASE(another_manager_ends_no_standby) {
  start();
  stand_by();
  welcome x;
  x.incarnation = 78;
  manager_says(x);
  BOOST_TEST(children->signals.empty());
}

BOOST_AUTO_TEST_CASE(a_standby_gives_its_memory_back) {
  start();
  auto next = stand_by();
  to_workers.clear();
  worker_beat x;
  x.load.session = {1};
  x.load.epoch = {1};
  x.load.memory_bytes = 2 * gib; // of four, and one for the standby
  worker_says(x);
  BOOST_TEST(children->signals.empty());
  x.load.memory_bytes += 1;
  worker_says(x);
  BOOST_CHECK((children->signals == signals{{next, SIGKILL}}));
  BOOST_TEST(answer() == "its memory was needed");
  says(standby_news::wanted);
  BOOST_TEST(answer() == "pGPU 0 has too little free memory");
}

BOOST_AUTO_TEST_CASE(a_standby_in_the_way_ends_before_the_answer) {
  start();
  auto next = stand_by();
  to_workers.clear();
  says(standby_news::in_the_way);
  BOOST_CHECK((children->signals == signals{{next, SIGKILL}}));
  BOOST_TEST(!take<done>(to_workers, "w"));
  ends(next, "signal 9", false);
  auto got = take<done>(to_workers, "w");
  BOOST_REQUIRE(got);
  BOOST_TEST(got->second == 4u); // the request
  says(standby_news::in_the_way);
  BOOST_TEST(take<refusal>(to_workers, "w")->first.reason ==
             "there are no standbys");
}

BOOST_AUTO_TEST_CASE(a_worker_learns_that_its_standby_has_ended) {
  start();
  auto next = stand_by();
  to_workers.clear();
  ends(next, "signal 11", false);
  BOOST_TEST(answer() == "it ended: signal 11");
}

BOOST_AUTO_TEST_CASE(nobody_else_gets_or_ends_a_standby) {
  start();
  to_workers.clear();
  worker_says(standby{{1}, {1}, standby_news::wanted}, "stranger");
  BOOST_TEST(answer("stranger") == "it is no worker of this node");
  worker_says(standby{{1}, {9}, standby_news::wanted});
  BOOST_TEST(answer() == "it is no worker of this node");
  stand_by();
  worker_says(standby{{1}, {1}, standby_news::useless}, "stranger");
  BOOST_TEST(children->signals.empty());
  says(standby_news::useless);
  BOOST_TEST(children->signals.size() == 1u);
}

BOOST_FIXTURE_TEST_CASE(without_memory_for_them_there_are_no_standbys, a_node) {
  join();
  start();
  to_workers.clear();
  worker_says(standby{{1}, {1}, standby_news::wanted});
  auto got = take<worker_prepared>(to_workers, "w");
  BOOST_REQUIRE(got);
  BOOST_TEST(got->first.failure == "this node keeps no standbys");
}

BOOST_AUTO_TEST_SUITE_END()
