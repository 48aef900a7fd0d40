// A session as the client's thread and the worker's thread serve it.
#include "tests/unit/actors/data_plane_fixture.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>

#include <random>
#include <thread>

using namespace vgpu;
using namespace vgpu::test;
using namespace std::chrono_literals;

BOOST_FIXTURE_TEST_SUITE(data_plane, world)

BOOST_AUTO_TEST_CASE(a_mapped_log_is_served) {
  begin(transport::automatic, true);
  for (int i = 0; i < 1000; ++i)
    add(3);
  BOOST_TEST(read_counter() == 3000u);
}

BOOST_AUTO_TEST_CASE(a_forwarded_log_is_served) {
  begin(transport::forwarded, true);
  for (int i = 0; i < 1000; ++i)
    add(3);
  BOOST_TEST(read_counter() == 3000u);
}

/// Calls arrive during a busy-poll, after it, and just as the thread goes to
/// sleep.
BOOST_DATA_TEST_CASE_F(world, a_busy_poll_misses_no_call,
                       boost::unit_test::data::make(both)) {
  looks = {200us, 200us};
  begin(transport::automatic, sample.same_host);
  std::minstd_rand chance{1};
  for (std::uint32_t i = 1; i <= 2000; ++i) {
    auto pause = std::chrono::microseconds{chance() % 400};
    for (auto until = std::chrono::steady_clock::now() + pause;
         std::chrono::steady_clock::now() < until;)
      std::this_thread::yield();
    add(1);
    BOOST_TEST_REQUIRE(read_counter() == i);
  }
}

/// A client that always has calls to send delays no other message.
BOOST_AUTO_TEST_CASE(a_steady_flow_of_calls_delays_no_other_message) {
  looks = {1ms, 1ms};
  lease_term = 10s; // A busy machine may stop everybody for a while.
  begin(transport::forwarded, false);
  constexpr std::uint32_t calls = 100'000;
  std::atomic<bool> ended = false;
  std::thread program{[&] {
    for (std::uint32_t i = 0; i < calls; ++i)
      add(1);
    ended = true;
  }};
  while (!ended)
    BOOST_TEST((ask(call::device_sync{}, 2) == CUDA_SUCCESS));
  program.join();
  BOOST_TEST(read_counter() == calls);
  BOOST_TEST(!in.has<control::suspect>([](auto&) { return true; }));
}

BOOST_AUTO_TEST_CASE(a_paused_session_that_is_lost_answers_with_the_reason) {
  connect(transport::automatic);
  lease(1, start_worker(1, true));
  loading->close();
  load();
  order_pause(1); // its worker is in a long call
  auto why = std::make_shared<control::refusal>();
  why->reason = "it was given up";
  caf::anon_send(in.io, refusal_ptr{std::move(why)});
  BOOST_TEST(paused(1) == "it was given up");
  loading->open();
}

BOOST_AUTO_TEST_CASE(a_worker_in_a_long_call_keeps_its_lease) {
  connect(transport::forwarded);
  auto worker = start_worker(1, false);
  lease(1, worker);
  loading->close();
  load();
  add(2);
  // The pause lasts several terms of a lease.
  auto suspected = [&] {
    return in.has<control::suspect>([](auto&) { return true; });
  };
  BOOST_TEST(!in.wait(suspected, 1500ms));
  loading->open();
  BOOST_TEST((answer_of(1) == CUDA_SUCCESS));
  add(3);
  BOOST_TEST(read_counter() == 5u);
  BOOST_TEST(!suspected());
}

// The call is like a driver that waits for all streams, one of which waits for
// the program.
BOOST_DATA_TEST_CASE_F(world, a_host_function_ends_while_a_call_waits_for_it,
                       boost::unit_test::data::make(both)) {
  begin(transport::automatic, sample.same_host);
  auto call = append(call::host_call{{legacy_stream}}, 2);
  auto called = [&] {
    return area.at(2).state == static_cast<std::uint32_t>(slot_state::called);
  };
  BOOST_TEST(await("the program is called", called));
  append(call::stream_create{{stream_id{40}}, 1, 0});
  append(call::host_done{call.value});
  area.at(2).state = 0;
  add(3);
  BOOST_TEST(read_counter() == 3u);
}

BOOST_AUTO_TEST_CASE(a_worker_that_is_stuck_in_a_call_is_suspected) {
  longest_call = 200ms;
  connect(transport::forwarded);
  lease(1, start_worker(1, false));
  loading->close();
  load();
  BOOST_TEST(in.wait(
      [&] { return in.has<control::suspect>([](auto&) { return true; }); }));
}

/// On a busy host, or behind a slow link, all workers would be suspected one
/// after the other.
BOOST_AUTO_TEST_CASE(after_each_silence_the_client_waits_longer) {
  connect(transport::forwarded);
  std::list<link_socket> mute;
  auto suspected_after = [&](std::uint64_t epoch, const std::string& time) {
    link_options bind;
    bind.as = link_options::form::bind;
    bind.endpoint = "tcp://127.0.0.1:*";
    bind.name = "mute";
    running_worker worker;
    worker.endpoints = {
        mute.emplace_back(zmq, bind).endpoint(), "nobody", other_host, {}};
    lease(epoch, worker);
    return in.wait([&] {
      return in.has<control::suspect>([&](auto& x) {
        return x.epoch == vgpu::epoch{epoch} &&
               x.reason.ends_with("silent for " + time);
      });
    });
  };
  BOOST_TEST(suspected_after(1, "2000 ms")); // before its first word
  BOOST_TEST(suspected_after(2, "4000 ms"));
  lease(3, start_worker(3, false));
  prepare();
  add(3);
  BOOST_TEST(read_counter() == 3u);
}

// A manager that loses a node hears of the suspicion when it has no worker to
// replace. The node's return brings the same lease again.
BOOST_AUTO_TEST_CASE(a_suspicion_is_repeated_when_its_lease_comes_again) {
  longest_call = 200ms;
  connect(transport::forwarded);
  auto worker = start_worker(1, false);
  lease(1, worker);
  loading->close();
  load();
  auto suspicions = [&] {
    return std::ranges::count_if(in.told, [](const auto& x) {
      return std::holds_alternative<control::suspect>(x);
    });
  };
  BOOST_TEST(in.wait([&] { return suspicions() == 1; }));
  lease(1, worker);
  BOOST_TEST(in.wait([&] { return suspicions() == 2; }));
}

BOOST_AUTO_TEST_CASE(another_worker_replays_and_continues) {
  auto first = begin(transport::automatic, false);
  for (std::uint32_t i = 1; i <= 100; ++i) {
    add(i);
    if (i % 10 == 0)
      BOOST_TEST(read_counter() == i * (i + 1) / 2);
  }
  caf::anon_send_exit(first.actor, caf::exit_reason::kill);
  BOOST_TEST(in.wait([&] {
    return in.has<control::suspect>(
        [](auto& x) { return x.epoch == vgpu::epoch{1}; });
  }));
  add(1);
  lease(2, start_worker(2, false));
  BOOST_TEST(read_counter() == 5051u);
  BOOST_TEST(in.wait([&] {
    return in.has<control::event>([](auto& x) {
      return x.kind == "session-replayed" && x.calls > 100 && x.bytes > 0;
    }) && in.has<control::event>([](auto& x) {
      return x.kind == "first-result";
    });
  }));
}

BOOST_AUTO_TEST_CASE(a_replay_is_charged_separately) {
  auto first = begin(transport::forwarded, false);
  for (int i = 0; i < 100; ++i)
    add(1);
  BOOST_TEST(read_counter() == 100u);
  BOOST_TEST(read_counter() == 100u);
  BOOST_TEST(charged());
  caf::anon_send_exit(first.actor, caf::exit_reason::kill);
  wait_for(first);
  auto second = start_worker(2, false);
  lease(2, second);
  add(1);
  BOOST_TEST(read_counter() == 101u);
  BOOST_TEST(charged());
  caf::anon_send_exit(second.actor, caf::exit_reason::kill);
  wait_for(second);
  auto before = first.gauges->account.used();
  auto after = second.gauges->account.used();
  BOOST_TEST(before.from_device == 8u);
  BOOST_TEST(before.replay_bytes == 0u);
  BOOST_TEST(before.device_ns > 0u);
  BOOST_TEST(before.replay_ns == 0u);
  BOOST_TEST(after.from_device == 4u);
  BOOST_TEST(after.replay_bytes == 8u);
  BOOST_TEST(after.replay_ns > 0u);
  BOOST_TEST(after.device_ns > 0u);
}

BOOST_AUTO_TEST_CASE(a_replay_with_the_same_results_is_not_reported) {
  auto first = begin(transport::automatic, false);
  add(4);
  BOOST_TEST(read_counter() == 4u);
  replace(first);
  BOOST_TEST(read_counter() == 4u);
  auto reported = [&] {
    return in.has<control::event>(
        [](auto& x) { return x.kind == "replay-differs"; });
  };
  BOOST_TEST(!in.wait(reported, 200ms));
}

BOOST_AUTO_TEST_CASE(a_replay_with_other_results_is_reported) {
  auto first = begin(transport::automatic, false);
  add(4);
  auto read = log.tail();
  BOOST_TEST(read_counter() == 4u);
  drift = 1;
  replace(first);
  BOOST_TEST(read_counter() == 5u);
  BOOST_TEST(in.wait([&] {
    return in.has<control::event>([&](auto& x) {
      return x.kind == "replay-differs" && x.calls == 1 &&
             x.vgpu == vgpu_id{1} &&
             x.text.find("number " + std::to_string(read)) != std::string::npos;
    });
  }));
}

BOOST_AUTO_TEST_CASE(a_session_moves_without_a_replay) {
  auto first = begin(transport::forwarded, false);
  for (int i = 0; i < 100; ++i)
    add(3);
  BOOST_TEST(read_counter() == 300u);
  BOOST_TEST(pause(1) == "");
  wait_for(first);
  // A call that is executed again would add this.
  drift = 1000;
  lease(2, start_worker(2, false));
  BOOST_TEST(read_counter() == 300u);
  drift = 0;
  BOOST_TEST(in.wait([&] {
    return in.has<control::restored>([](auto& x) {
      return x.epoch == vgpu::epoch{2} && x.bytes > 0 && x.milliseconds > 0;
    });
  }));
  BOOST_TEST(!in.has<control::event>(
      [](auto& x) { return x.kind == "session-replayed"; }));
}

BOOST_DATA_TEST_CASE(a_session_is_copied_ahead_or_at_rest,
                     boost::unit_test::data::make(both), where) {
  for (auto sight : {false, true}) {
    world it;
    it.watches = true;
    it.blind = !sight;
    auto first = it.begin(transport::automatic, where.same_host);
    for (int i = 0; i < 100; ++i)
      it.add(3);
    BOOST_TEST(it.read_counter() == 300u);
    BOOST_TEST(it.pause(1) == "");
    wait_for(first);
    it.drift = 1000;
    it.lease(2, it.start_worker(2, where.same_host));
    BOOST_TEST(it.read_counter() == 300u);
    BOOST_TEST(!it.in.has<control::event>(
        [](auto& x) { return x.kind == "session-replayed"; }));
  }
}

/// Whatever has come of its state by then, nothing of the session is lost.
BOOST_AUTO_TEST_CASE(a_worker_that_dies_while_it_is_copied_loses_nothing) {
  watches = true;
  auto first = begin(transport::forwarded, false);
  add(3);
  BOOST_TEST(read_counter() == 3u);
  order_pause(1);
  replace(first);
  BOOST_TEST(read_counter() == 3u);
}

BOOST_AUTO_TEST_CASE(a_next_worker_that_dies_while_it_restores_loses_nothing) {
  watches = true;
  auto first = begin(transport::forwarded, false);
  add(3);
  BOOST_TEST(pause(1) == "");
  wait_for(first);
  auto second = start_worker(2, false);
  lease(2, second);
  replace(second, 3);
  BOOST_TEST(read_counter() == 3u);
}

BOOST_AUTO_TEST_CASE(a_large_state_is_a_file_without_a_name) {
  state_memory = 0;
  auto first = begin(transport::forwarded, false);
  add(8);
  BOOST_TEST(pause(1) == "");
  wait_for(first);
  for (auto& file : std::filesystem::directory_iterator{
           std::filesystem::temp_directory_path()})
    BOOST_TEST(!file.path().filename().string().starts_with(
        "vgpu-state-1-1-" + std::to_string(::getpid())));
  lease(2, start_worker(2, false));
  BOOST_TEST(read_counter() == 8u);
}

BOOST_AUTO_TEST_CASE(a_session_without_room_for_its_state_continues) {
  state_memory = 0;
  state_dir = "/nonexistent";
  begin(transport::forwarded, false);
  add(8);
  BOOST_TEST(pause(1).find("state") != std::string::npos);
  add(1);
  BOOST_TEST(read_counter() == 9u);
}

BOOST_AUTO_TEST_CASE(a_call_of_a_suspended_session_wakes_it) {
  auto first = begin(transport::forwarded, false);
  BOOST_TEST(pause(1) == "");
  wait_for(first);
  auto woken = [&] {
    return in.has<control::wake_session>([](auto&) { return true; });
  };
  BOOST_TEST(!in.wait(woken, 100ms));
  add(5);
  BOOST_TEST(in.wait(woken));
  lease(2, start_worker(2, false));
  BOOST_TEST(read_counter() == 5u);
}

BOOST_AUTO_TEST_CASE(a_lost_state_is_restored_by_the_journal) {
  auto first = begin(transport::forwarded, false);
  add(5);
  BOOST_TEST(read_counter() == 5u);
  BOOST_TEST(pause(1) == "");
  wait_for(first);
  // The worker that restored the state dies.
  auto second = start_worker(2, false);
  lease(2, second);
  add(6);
  BOOST_TEST(read_counter() == 11u);
  replace(second, 3);
  BOOST_TEST(read_counter() == 11u);
}

/// A client may take answers and die before it acknowledges them. The worker
/// sends them again, but their bytes belong to the program by then.
BOOST_AUTO_TEST_CASE(delivered_bytes_are_not_written_again) {
  auto worker = begin(transport::forwarded, false);
  for (std::uint32_t round = 1; round <= 5; ++round) {
    add(7);
    BOOST_TEST((ask(call::read_host{.stream = {legacy_stream},
                                    .to = {host_window, 0, 0},
                                    .from = {counter, 0, 0},
                                    .size = {4, 1, 1}}) == CUDA_SUCCESS));
    std::uint32_t got = 0;
    BOOST_REQUIRE(::pread(area.host_fd(), &got, 4, 0) == 4);
    BOOST_TEST(got == 7 * round);
    got = 4711;
    BOOST_REQUIRE(::pwrite(area.host_fd(), &got, 4, 0) == 4);
    kill_client();
    connect(transport::forwarded, true);
    lease(1, worker);
    BOOST_TEST((ask(call::device_sync{}) == CUDA_SUCCESS));
    BOOST_REQUIRE(::pread(area.host_fd(), &got, 4, 0) == 4);
    BOOST_TEST(got == 4711u);
  }
}

BOOST_AUTO_TEST_CASE(an_order_of_another_epoch_changes_nothing) {
  begin(transport::forwarded, false);
  BOOST_TEST(pause(7).find("epoch") != std::string::npos);
  add(2);
  BOOST_TEST(read_counter() == 2u);
}

BOOST_AUTO_TEST_CASE(a_session_without_protection_ends_with_a_cuda_error) {
  area.header().protection_level = static_cast<std::uint32_t>(protection::none);
  // The worker has ended when the call is appended, or it would answer it.
  kill(begin(transport::forwarded, false));
  append(call::device_sync{}, 2);
  lease(2, start_worker(2, false));
  BOOST_TEST((answer_of(2) == CUDA_ERROR_DEVICE_UNAVAILABLE));
  BOOST_TEST((ask(call::device_sync{}) == CUDA_ERROR_DEVICE_UNAVAILABLE));
  BOOST_TEST(area.header().sticky_error.load() ==
             static_cast<unsigned>(CUDA_ERROR_DEVICE_UNAVAILABLE));
}

BOOST_AUTO_TEST_CASE(a_wrong_token_is_refused) {
  connect(transport::forwarded);
  auto worker = start_worker(1, false);
  auto x = std::make_shared<control::lease>();
  x->session = {1};
  x->epoch = {1};
  x->worker = worker.endpoints;
  x->token = token + 1;
  caf::anon_send(in.io, lease_ptr{x});
  append(call::device_sync{}, 2);
  BOOST_TEST(in.wait(
      [&] { return in.has<control::suspect>([](auto&) { return true; }); }));
  BOOST_TEST(worker.gauges->calls.load() == 0u);
}

BOOST_AUTO_TEST_CASE(a_bad_handle_fails_its_call_alone) {
  begin(transport::automatic, true);
  BOOST_TEST((ask(call::stream_sync{.stream = {{4711}}}) ==
              CUDA_ERROR_INVALID_HANDLE));
  BOOST_TEST((ask(call::read{.stream = {legacy_stream},
                             .from = {counter + 200, 0, 0},
                             .size = {400, 1, 1},
                             .to = {0, 400}}) == CUDA_ERROR_INVALID_VALUE));
  BOOST_TEST((ask(call::read{.stream = {legacy_stream},
                             .from = {counter, 0, 0},
                             .size = {100, 1, 1},
                             .to = {arena_bytes - 50, 100}}) ==
              CUDA_ERROR_INVALID_VALUE));
  add(2);
  BOOST_TEST(read_counter() == 2u);
}

BOOST_AUTO_TEST_SUITE_END()
