#include "tests/unit/actors/node/supervisor_fixture.hpp"

#include <csignal>
#include <unistd.h>

using namespace vgpu;
using namespace vgpu::control;
using namespace std::chrono_literals;
using namespace vgpu::test::supervised;
using vgpu::test::take;

namespace {

/// Runs one worker for each of its two pGPUs.
struct small_node : a_node {
  small_node() : a_node(1) {}
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(registration, a_node)

BOOST_AUTO_TEST_CASE(a_node_registers_and_then_sends_heartbeats) {
  advance(300ms);
  BOOST_TEST(to_manager.empty()); // no manager yet
  connect();
  BOOST_TEST(to_manager.empty()); // the link says hello
  manager_says(welcome{1, "m", 77, 50, 500});
  auto told = heard<register_node>();
  BOOST_REQUIRE(told);
  BOOST_TEST(told->pgpus.size() == 2u);
  BOOST_TEST(told->sandbox == "seccomp");
  advance(300ms);
  BOOST_TEST(!heard<node_beat>()); // not before it is registered
  manager_says(done{}, 1);
  BOOST_TEST(ready == "ready");
  advance(1s);
  BOOST_TEST(to_manager.size() >= 19u);
  BOOST_TEST(to_manager.size() <= 21u);
}

BOOST_AUTO_TEST_CASE(a_node_registers_again_with_another_incarnation) {
  join();
  auto tag = start();
  (void)tag;
  manager_says(beat_ack{1, 77});
  BOOST_TEST(!heard<register_node>());
  manager_says(beat_ack{2, 78});
  auto told = heard<register_node>();
  BOOST_REQUIRE(told);
  BOOST_REQUIRE(told->sessions.size() == 1u);
  BOOST_CHECK(told->sessions[0].worker == where());
}

BOOST_AUTO_TEST_CASE(a_refused_first_registration_ends_the_node) {
  connect();
  manager_says(welcome{});
  manager_says(refusal{CUDA_SUCCESS, "the name is taken", {}}, 1);
  BOOST_TEST(ready == "the name is taken");
  BOOST_TEST(dead(chief));
}

BOOST_AUTO_TEST_CASE(a_later_refusal_does_not_end_the_node) {
  join();
  manager_says(refusal{CUDA_SUCCESS, "no", {}}, 1);
  BOOST_TEST(!dead(chief));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(workers, a_node)

BOOST_AUTO_TEST_CASE(a_worker_reads_its_epoch_and_token_from_its_input) {
  join();
  manager_says(order());
  BOOST_REQUIRE(children->starts.size() == 1u);
  auto& what = children->starts[0].what;
  BOOST_TEST(what.input_later);
  BOOST_TEST(what.quota == 1 * gib);
  BOOST_TEST(children->inputs[children->starts[0].tag] == "1 4711 0 none\n");
  std::string line;
  for (auto& x : what.argv)
    line += x + " ";
  BOOST_TEST(
      line ==
      "/bin/worker --node-endpoint ipc://node --session 1 --vgpu 2 "
      "--device cpu --pgpu 0 --memory-of-pgpu 4294967296 --capability 0 "
      "--quota 1073741824 --bind ipc://worker-a-1-1 --host-id h --boards=" +
          std::to_string(what.descriptors.at(0)) + " --usage " +
          std::to_string(what.descriptors.at(1)) + " ");
}

BOOST_AUTO_TEST_CASE(a_killed_workers_use_is_reported_until_acknowledged) {
  join();
  auto tag = start();
  auto fd = children->starts.at(0).what.descriptors.at(1);
  auto page = usage_page::open(unique_fd{::dup(fd)});
  BOOST_REQUIRE(page.ok());
  usage used{.device_ns = 5, .memory_kib_ms = 8};
  (*page)->write(used);
  (*page)->write_traffic({.to_device = 9});
  used.to_device = 9;
  to_manager.clear();
  ends(tag, "signal 9");
  auto said = [&] {
    auto beat = heard<node_beat>();
    to_manager.clear();
    return beat ? *beat : node_beat{};
  };
  auto first = said();
  BOOST_REQUIRE(first.ended.size() == 1u);
  BOOST_CHECK(first.ended[0].usage == used);
  BOOST_TEST(first.ended[0].session.value == 1u);
  BOOST_TEST(first.ended[0].epoch.value == 1u);
  BOOST_TEST(first.sessions.empty());
  // An acknowledgement of an earlier heartbeat does not cover it.
  manager_says(beat_ack{first.number - 1, 77});
  advance(100ms);
  auto next = said();
  BOOST_REQUIRE(next.ended.size() == 1u);
  BOOST_CHECK(next.ended[0].usage == used);
  manager_says(beat_ack{next.number, 77});
  to_manager.clear();
  advance(100ms);
  BOOST_TEST(said().ended.empty());
}

BOOST_AUTO_TEST_CASE(a_worker_takes_turns_at_its_pgpus_and_gives_them_up) {
  join();
  manager_says(order(1, {0, 1}));
  BOOST_REQUIRE(children->starts.size() == 1u);
  auto& what = children->starts[0].what;
  BOOST_REQUIRE(what.descriptors.size() == 3u);
  // The board exists as long as the process runs.
  auto board = share_board::open(unique_fd{::dup(what.descriptors[0])});
  BOOST_REQUIRE(board.ok());
  BOOST_TEST((*board)->look(0).taken == 1u);
  BOOST_TEST((*board)->look(0).claim.limit == 1);
  tell(chief, child_started{children->starts[0].tag, 5, {}});
  ends(children->starts[0].tag, "signal 9");
  BOOST_TEST((*board)->look(0).taken == 0u);
}

BOOST_AUTO_TEST_CASE(a_session_is_resized_where_it_runs) {
  join();
  manager_says(order());
  auto fd = children->starts.at(0).what.descriptors.at(0);
  auto board = share_board::open(unique_fd{::dup(fd)});
  BOOST_REQUIRE(board.ok());
  tell(chief, child_started{children->starts[0].tag, 1234, {}});
  // The worker has not said hello yet, so the supervisor tells it when it does.
  manager_says(resize_session{{1}, {1}, 0.25, 0.5, 3, 2 * gib});
  BOOST_TEST((*board)->look(0).claim.share == 0.25);
  BOOST_TEST((*board)->look(0).claim.limit == 0.5);
  BOOST_TEST((*board)->look(0).claim.priority == 3);
  BOOST_TEST(!take<resize_session>(to_workers, "w").has_value());
  worker_says(worker_hello{{1}, {1}, where(), {}});
  BOOST_TEST(take<resize_session>(to_workers, "w")->first.quota == 2 * gib);
  BOOST_TEST(children->quotas[children->starts[0].tag] == 2 * gib);
  manager_says(resize_session{{1}, {1}, 0.5, 0.5, 3, 2 * gib});
  BOOST_TEST(take<resize_session>(to_workers, "w").has_value());
  // An order of another epoch is not for this worker.
  manager_says(resize_session{{1}, {2}, 1, 1, 0, gib});
  BOOST_TEST((*board)->look(0).claim.share == 0.5);
}

BOOST_AUTO_TEST_CASE(a_worker_learns_its_clients_key) {
  join();
  const std::string first(40, 'a'), second(40, 'b'), third(40, 'c');
  auto what = order();
  what.client_key = first;
  manager_says(what);
  auto tag = children->starts.at(0).tag;
  BOOST_TEST(children->inputs[tag] == "1 4711 0 " + first + "\n");
  tell(chief, child_started{tag, 1234, {}});
  // The worker has not said hello yet. A change of the client leaves the rest.
  manager_says(resize_session{{1}, {1}, 0.25, 0.5, 3, 2 * gib});
  manager_says(resize_session{{1}, {1}, 0, 1, 0, 0, second});
  worker_says(worker_hello{{1}, {1}, where(), {}});
  auto told = take<resize_session>(to_workers, "w");
  BOOST_REQUIRE(told);
  BOOST_CHECK(
      (told->first == resize_session{{1}, {1}, 0.25, 0.5, 3, 2 * gib, second}));
  auto board = share_board::open(
      unique_fd{::dup(children->starts.at(0).what.descriptors.at(0))});
  BOOST_REQUIRE(board.ok());
  BOOST_TEST((*board)->look(0).claim.share == 0.25);
  manager_says(resize_session{{1}, {1}, 0, 1, 0, 0, third});
  told = take<resize_session>(to_workers, "w");
  BOOST_REQUIRE(told);
  BOOST_TEST(told->first.client_key == third);
  BOOST_TEST(told->first.share == 0);
  BOOST_TEST((*board)->look(0).claim.share == 0.25);
  BOOST_TEST(children->quotas[tag] == 2 * gib);
}

BOOST_AUTO_TEST_CASE(a_pgpus_policy_is_set_and_reported) {
  join();
  manager_says(order());
  auto fd = children->starts.at(0).what.descriptors.at(0);
  auto board = share_board::open(unique_fd{::dup(fd)});
  BOOST_REQUIRE(board.ok());
  manager_says(set_policy{"a", 0, "fixed", 5000});
  auto rules = (*board)->rules();
  BOOST_CHECK(rules.policy == policy::share_policy::fixed);
  BOOST_TEST(rules.quantum == 5'000'000);
  auto told = heard<register_node>();
  BOOST_REQUIRE(told);
  BOOST_TEST(told->pgpus[0].policy == "fixed");
  BOOST_TEST(told->pgpus[0].quantum_us == 5000u);
  BOOST_TEST(told->pgpus[1].policy == "best-effort");
}

BOOST_AUTO_TEST_CASE(a_workers_end_is_reported) {
  join();
  auto tag = start();
  ends(tag, "signal 9");
  auto told = heard<worker_exited>();
  BOOST_REQUIRE(told);
  BOOST_TEST(told->how == "signal 9");
  BOOST_TEST(!told->clean);
  manager_says(beat_ack{1, 1});
  BOOST_TEST(heard<register_node>()->sessions.empty());
}

BOOST_AUTO_TEST_CASE(a_worker_that_cannot_start_is_reported_once) {
  join();
  manager_says(order());
  tell(chief, child_started{1, 0, "no such file"});
  BOOST_TEST(heard<worker_started>()->failure == "no such file");

  manager_says(order(2));
  tell(chief, child_started{2, 5, {}});
  ends(2, "exit 3");
  BOOST_TEST(heard<worker_started>()->failure.find("exit 3") !=
             std::string::npos);
  BOOST_TEST(!heard<worker_exited>());

  manager_says(order(3));
  tell(chief, child_started{3, 5, {}});
  worker_says(worker_hello{{1}, {3}, {}, "no device"});
  BOOST_TEST(heard<worker_started>()->failure == "no device");
  ends(3, "exit 1");
  BOOST_TEST(!heard<worker_started>());
}

BOOST_AUTO_TEST_CASE(a_worker_without_a_hello_is_killed) {
  join();
  manager_says(order());
  tell(chief, child_started{1, 5, {}});
  advance(9900ms);
  BOOST_TEST(children->signals.empty());
  advance(300ms);
  BOOST_REQUIRE(children->signals.size() == 1u);
  BOOST_TEST(children->signals[0].second == SIGKILL);
  BOOST_TEST(heard<worker_started>()->failure != "");
}

BOOST_AUTO_TEST_CASE(a_worker_is_killed_if_it_ignores_sigterm) {
  join();
  auto tag = start();
  manager_says(stop_worker{{1}, {1}, "closed"});
  BOOST_REQUIRE(children->signals.size() == 1u);
  BOOST_TEST(children->signals[0].second == SIGTERM);
  advance(2200ms);
  BOOST_REQUIRE(children->signals.size() == 2u);
  BOOST_TEST(children->signals[1].first == tag);
  BOOST_TEST(children->signals[1].second == SIGKILL);
}

BOOST_AUTO_TEST_CASE(only_the_named_epoch_and_older_ones_stop) {
  join();
  start(5);
  manager_says(stop_worker{{1}, {4}, "old"});
  manager_says(stop_worker{{9}, {9}, "unknown"});
  BOOST_TEST(children->signals.empty());
}

BOOST_AUTO_TEST_CASE(a_worker_is_prepared_and_gets_its_orders_later) {
  join();
  manager_says(prepare_worker{{1}, {2}, {0}, gib});
  BOOST_REQUIRE(children->starts.size() == 1u);
  auto tag = children->starts[0].tag;
  tell(chief, child_started{tag, 1234, {}});
  BOOST_TEST(children->inputs.empty());
  next_worker next{"w-1", 6};
  worker_says(worker_prepared{{1}, {}, next});
  auto told = heard<worker_prepared>();
  BOOST_REQUIRE(told);
  BOOST_TEST(told->failure == "");
  BOOST_CHECK(told->next == next);
  BOOST_TEST(told->session.value == 1u);
  // Without an epoch it does not belong to the session yet.
  BOOST_TEST(!heard<worker_started>());
  manager_says(order(5));
  BOOST_TEST(children->starts.size() == 1u);
  BOOST_TEST(children->inputs[tag] == "5 4711 0 none\n");
  worker_says(worker_hello{{1}, {5}, where(), {}});
  auto started = heard<worker_started>();
  BOOST_REQUIRE(started);
  BOOST_TEST(started->epoch.value == 5u);
  BOOST_TEST(started->pid == 1234u);
}

BOOST_AUTO_TEST_CASE(a_worker_prepared_for_another_pgpu_is_not_used) {
  join();
  manager_says(prepare_worker{{1}, {2}, {1}, gib});
  auto tag = children->starts[0].tag;
  manager_says(order(5, {0}));
  BOOST_REQUIRE(children->starts.size() == 2u);
  BOOST_TEST(!children->inputs.contains(tag));
  BOOST_REQUIRE(children->signals.size() == 1u);
  BOOST_CHECK((children->signals[0] == std::pair{tag, SIGKILL}));
}

BOOST_AUTO_TEST_CASE(a_worker_that_cannot_be_prepared_is_reported) {
  join();
  manager_says(prepare_worker{{1}, {2}, {7}, gib});
  BOOST_TEST(heard<worker_prepared>()->failure == "this node has no pGPU 7");
  manager_says(prepare_worker{{1}, {2}, {0}, gib});
  ends(children->starts.at(0).tag, "exit 1");
  BOOST_TEST(heard<worker_prepared>()->failure ==
             "its worker ended at once: exit 1");
  manager_says(prepare_worker{{1}, {2}, {0}, gib});
  advance(11s);
  BOOST_TEST(heard<worker_prepared>()->failure ==
             "its worker does not come up in time");
  BOOST_TEST(children->signals.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_prepared_worker_ends_when_it_is_not_needed) {
  join();
  manager_says(prepare_worker{{1}, {2}, {0}, gib});
  worker_says(worker_prepared{{1}, {}});
  manager_says(prepare_worker{{1}, {2}, {}, 0});
  BOOST_TEST(children->signals.size() == 1u);
  // The node ends only after this worker.
  tell(chief, supervisor_stop{});
  manager_says(done{}, 2);
  BOOST_TEST(!dead(chief));
  deterministic::tell(
      chief, child_exited{children->starts.at(0).tag, "signal 9", false});
  BOOST_TEST(dead(chief));
}

BOOST_AUTO_TEST_CASE(a_released_worker_does_not_delay_its_successor) {
  join();
  auto first = start(1);
  auto next = order(2, {1});
  next.former_released = true;
  manager_says(next);
  BOOST_REQUIRE(children->starts.size() == 2u);
  auto second = children->starts[1].tag;
  BOOST_CHECK((children->signals.at(0) == std::pair{first, SIGKILL}));
  tell(chief, child_started{second, 1235, {}});
  worker_says(worker_hello{{1}, {2}, where(), {}});
  BOOST_TEST(heard<worker_started>()->epoch.value == 2u);
  // The manager hears nothing of the released worker's end.
  ends(first, "signal 9");
  BOOST_TEST(!heard<worker_exited>());
  ends(second, "signal 11");
  BOOST_TEST(heard<worker_exited>()->epoch.value == 2u);
}

BOOST_AUTO_TEST_CASE(a_successor_waits_for_a_pgpu_that_is_still_taken) {
  join();
  auto first = start(1);
  auto next = order(2, {0, 1}); // the former worker has pGPU 0
  next.former_released = true;
  manager_says(next);
  BOOST_TEST(children->starts.size() == 1u);
  ends(first, "signal 9");
  BOOST_TEST(children->starts.size() == 2u);
}

BOOST_AUTO_TEST_CASE(a_session_that_returns_waits_for_its_former_pgpu) {
  join();
  auto [first, second] = there_and_back();
  BOOST_TEST(children->starts.size() == 2u); // the first process has pGPU 0
  manager_says(order(2, {0}));               // an older order
  ends(first, "signal 9");
  BOOST_REQUIRE(children->starts.size() == 3u);
  auto third = children->starts[2].tag;
  BOOST_TEST(children->inputs[third] == "3 4711 0 none\n");
  tell(chief, child_started{third, 1236, {}});
  worker_says(worker_hello{{1}, {3}, where(), {}});
  // The late end of the second process takes nothing from the third.
  ends(second, "signal 9");
  manager_says(order(4, {0}));
  ends(third, "signal 9");
  BOOST_TEST(children->inputs[children->starts.at(3).tag] == "4 4711 0 none\n");
}

BOOST_AUTO_TEST_CASE(a_session_that_waits_to_return_can_be_stopped) {
  join();
  auto first = there_and_back().first;
  manager_says(stop_worker{{1}, {3}, "its program ended"});
  ends(first, "signal 9");
  BOOST_TEST(children->starts.size() == 2u);
}

BOOST_AUTO_TEST_CASE(another_manager_ends_prepared_workers) {
  join();
  manager_says(prepare_worker{{1}, {2}, {0}, gib});
  welcome other;
  other.incarnation = 78;
  manager_says(other);
  BOOST_REQUIRE(children->signals.size() == 1u);
  BOOST_TEST(children->signals[0].second == SIGKILL);
}

// The manager may have given the migration up without being able to say so.
BOOST_AUTO_TEST_CASE(a_manager_that_lost_the_node_ends_prepared_workers) {
  join();
  manager_says(prepare_worker{{1}, {2}, {0}, gib});
  worker_says(worker_prepared{{1}, {}});
  BOOST_TEST(heard<worker_prepared>().has_value());
  manager_says(beat_ack{1, 0});
  BOOST_REQUIRE(children->signals.size() == 1u);
  BOOST_TEST(children->signals[0].second == SIGKILL);
  BOOST_TEST(!heard<worker_prepared>());
}

BOOST_AUTO_TEST_CASE(a_manager_that_reconnects_ends_prepared_workers) {
  join();
  manager_says(prepare_worker{{1}, {2}, {0}, gib});
  manager_says(welcome{1, "m", 77, 50, 500});
  BOOST_TEST(children->signals.size() == 1u);
  // The manager may still wait for this worker.
  auto told = heard<worker_prepared>();
  BOOST_REQUIRE(told);
  BOOST_TEST(told->failure.find("manager") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_new_epoch_begins_when_the_old_process_is_dead) {
  join();
  auto old = start(1);
  manager_says(order(2));
  BOOST_REQUIRE(children->signals.size() == 1u);
  BOOST_TEST(children->signals[0].second == SIGKILL);
  BOOST_TEST(children->starts.size() == 1u);
  ends(old, "signal 9");
  BOOST_TEST(children->starts.size() == 2u);
  // The supervisor refuses messages of the old worker.
  worker_says(worker_hello{{1}, {1}, where(), {}}, "old");
  BOOST_TEST(take<refusal>(to_workers, "old").has_value());
}

BOOST_AUTO_TEST_CASE(an_older_order_is_fenced) {
  join();
  start(3);
  manager_says(order(2));
  BOOST_TEST(children->starts.size() == 1u);
  BOOST_TEST(children->signals.empty());
  BOOST_TEST(heard<control::event>()->kind == "fenced");
  // The same order again gets the same answer.
  manager_says(order(3));
  BOOST_TEST(heard<worker_started>()->epoch.value == 3u);
  BOOST_TEST(children->starts.size() == 1u);
}

BOOST_AUTO_TEST_CASE(an_order_that_waits_can_be_withdrawn) {
  join();
  auto old = start(1);
  manager_says(order(2));
  manager_says(stop_worker{{1}, {2}, "closed"});
  ends(old, "signal 9");
  BOOST_TEST(children->starts.size() == 1u);
}

BOOST_AUTO_TEST_CASE(orders_that_cannot_be_met_are_refused) {
  join();
  manager_says(order(1, {0, 7}));
  BOOST_TEST(heard<worker_started>()->failure.find("pGPU 7") !=
             std::string::npos);
  manager_says(order(2, {}));
  BOOST_TEST(heard<worker_started>()->failure != "");
  auto huge = order(3);
  huge.quota = 5 * gib;
  manager_says(huge);
  BOOST_TEST(heard<worker_started>()->failure.find("quota") !=
             std::string::npos);
  BOOST_TEST(children->starts.empty());
}

BOOST_FIXTURE_TEST_CASE(a_node_has_so_many_processes_of_workers, small_node) {
  join();
  auto of = [](std::uint64_t session) {
    auto out = order();
    out.session = {session};
    return out;
  };
  manager_says(of(1));
  manager_says(of(2));
  BOOST_TEST(children->starts.size() == 2u);
  BOOST_TEST(!heard<worker_started>());
  manager_says(of(3));
  BOOST_TEST(heard<worker_started>()->failure.find("at most 2") !=
             std::string::npos);
  manager_says(prepare_worker{{4}, {2}, {0}, gib});
  BOOST_TEST(heard<worker_prepared>()->failure.find("at most 2") !=
             std::string::npos);
  BOOST_TEST(children->starts.size() == 2u);
  // There is room when one has ended.
  tell(chief, child_exited{children->starts[0].tag, "exit 0", true});
  to_manager.clear();
  manager_says(of(3));
  BOOST_TEST(children->starts.size() == 3u);
  BOOST_TEST(!heard<worker_started>());
}

BOOST_AUTO_TEST_CASE(heartbeats_carry_loads_of_the_current_epoch) {
  join();
  start(2);
  worker_says(worker_beat{{{1}, {1}, 9, 9, 9}, CUDA_SUCCESS});
  worker_says(worker_beat{{{1}, {2}, 5, 6, 7}, CUDA_SUCCESS});
  to_manager.clear();
  advance(110ms);
  auto told = heard<node_beat>();
  BOOST_REQUIRE(told);
  BOOST_REQUIRE(told->sessions.size() == 1u);
  BOOST_TEST(told->sessions[0].memory_bytes == 5u);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(devices, a_node)

BOOST_AUTO_TEST_CASE(an_injected_loss_reaches_workers_and_the_inventory) {
  join();
  start();
  manager_says(inject_fault{"a", 0, injected_fault::lost});
  BOOST_TEST(take<inject_fault>(to_workers, "w").has_value());
  auto told = heard<register_node>();
  BOOST_REQUIRE(told);
  BOOST_TEST((told->pgpus[0].state == pgpu_health::lost));
  BOOST_TEST((told->pgpus[1].state == pgpu_health::healthy));
  // No worker starts on a lost pGPU.
  manager_says(order(9));
  ends(1, "signal 9");
  BOOST_TEST(heard<worker_exited>().has_value());
  BOOST_TEST(heard<worker_started>()->failure.find("lost") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_hang_is_injected_into_workers_alone) {
  join();
  start();
  manager_says(inject_fault{"a", 0, injected_fault::hang});
  BOOST_TEST(take<inject_fault>(to_workers, "w").has_value());
  BOOST_TEST(!heard<register_node>());
  manager_says(inject_fault{"a", 1, injected_fault::hang});
  BOOST_TEST(!take<inject_fault>(to_workers, "w").has_value());
}

BOOST_AUTO_TEST_CASE(a_reported_device_failure_marks_the_pgpu_lost) {
  join();
  start();
  worker_says(worker_beat{{{1}, {1}, 0, 0, 0}, CUDA_ERROR_ILLEGAL_ADDRESS});
  BOOST_TEST(!heard<register_node>()); // the program's own fault
  worker_says(worker_beat{{{1}, {1}, 0, 0, 0}, CUDA_ERROR_ECC_UNCORRECTABLE});
  BOOST_TEST((heard<register_node>()->pgpus[0].state == pgpu_health::lost));
}

BOOST_AUTO_TEST_CASE(a_pgpu_counts_quotas_and_use_of_its_sessions) {
  auto gpu =
      spawn(vgpu::pgpu, control::pgpu{3, "cpu", {"g", {}, gib, {}}}, chief);
  auto ask = [&](auto what) {
    pgpu_answer got;
    auto pending = self->request(gpu, caf::infinite, what);
    run();
    pending.receive([&](pgpu_answer& x) { got = x; }, [](caf::error&) {});
    return got.refusal;
  };
  BOOST_TEST(ask(pgpu_reserve{{1}, {1}, gib}) == "");
  BOOST_TEST(ask(pgpu_reserve{{2}, {1}, gib}) == "");
  BOOST_TEST(ask(pgpu_reserve{{3}, {1}, gib + 1}) != "");
  // A session that returned holds its quota in its later epoch.
  BOOST_TEST(ask(pgpu_reserve{{1}, {2}, gib}) == "");
  tell(gpu, pgpu_use{{1}, 100});
  tell(gpu, pgpu_use{{9}, 100});
  tell(gpu, pgpu_release{{1}, {1}});
  tell(gpu, pgpu_release{{2}, {1}});
  pgpu_account got;
  auto pending = self->request(gpu, caf::infinite, pgpu_ask{});
  run();
  pending.receive([&](pgpu_account& x) { got = x; }, [](caf::error&) {});
  BOOST_TEST(got.quotas == gib);
  BOOST_TEST(got.used == 100u);
  BOOST_TEST(got.sessions.size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(the_end, a_node)

BOOST_AUTO_TEST_CASE(a_node_signs_off_stops_its_workers_and_waits) {
  join();
  auto tag = start();
  tell(chief, supervisor_stop{});
  BOOST_TEST(heard<control::shutdown>().has_value());
  BOOST_TEST(children->signals.at(0).second == SIGTERM);
  manager_says(done{}, 2);
  BOOST_TEST(!dead(chief));
  manager_says(order(9)); // too late to start a worker
  deterministic::tell(chief, child_exited{tag, "exit 0", true});
  BOOST_TEST(children->starts.size() == 1u);
  BOOST_TEST(dead(chief));
}

BOOST_AUTO_TEST_CASE(a_silent_manager_does_not_delay_the_nodes_end) {
  join();
  tell(chief, supervisor_stop{});
  BOOST_TEST(!dead(chief));
  advance(700ms);
  BOOST_TEST(dead(chief));
}

BOOST_AUTO_TEST_CASE(a_node_without_a_connection_ends_at_once) {
  join();
  tell(chief, test::gone("ipc://manager"));
  tell(chief, supervisor_stop{});
  BOOST_TEST(dead(chief));
}

BOOST_AUTO_TEST_SUITE_END()
