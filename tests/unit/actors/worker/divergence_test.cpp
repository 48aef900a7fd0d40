// A replay that gives other results than the program has read, under each
// setting of on-divergence.
#include "actors/client/guest_codec.hpp"
#include "actors/worker/session/held_answers.hpp"
#include "actors/worker/session/replay_checks.hpp"
#include "tests/unit/actors/data_plane_fixture.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>

using namespace vgpu;
using namespace vgpu::test;
using namespace std::chrono_literals;

namespace {

/// Begins under divergence::error. A sample says where the second worker is. In
/// one process only one worker can map the program's log, so the first one is
/// in the other place.
struct strict_world : world {
  strict_world() { on_divergence = control::divergence::error; }

  /// Kills the worker, and starts one whose results differ by `by`, where the
  /// first one was.
  void replace_with(const running_worker& former, std::uint32_t by,
                    bool same_host, std::uint64_t next = 2) {
    drift = by;
    kill(former);
    lease(next, start_worker(next, same_host));
  }
};

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> out;
  for (auto x : values)
    out.push_back(static_cast<std::byte>(x));
  return out;
}

/// Writes down what it is told.
struct noting_sink : unheard {
  std::vector<std::string> told;

  bool wanted(const waiter&) const override { return true; }
  void answer(const waiter& who, CUresult, std::uint64_t) override {
    told.push_back("answer " + std::to_string(who.call.value));
  }
  void deliver(const waiter& who, CUresult, std::uint64_t, const landing&,
               std::uint64_t, std::uint32_t) override {
    told.push_back("deliver " + std::to_string(who.call.value));
  }
  void deliver_host(const waiter& who, CUresult, device_address, const landing&,
                    std::uint32_t) override {
    told.push_back("deliver_host " + std::to_string(who.call.value));
  }
  void call_host(const waiter& who) override {
    told.push_back("call_host " + std::to_string(who.call.value));
  }
  void print(console, std::uint64_t, std::string_view text) override {
    told.push_back("print " + std::string{text});
  }
  void sticky(CUresult error) override {
    told.push_back("sticky " + std::to_string(error));
  }
};

void tell_all(answer_sink& to, std::uint64_t first) {
  to.answer({1, {first}}, CUDA_SUCCESS, 0);
  to.deliver({2, {first + 1}}, CUDA_SUCCESS, 0, {}, 0, 0);
  to.deliver_host({3, {first + 2}}, CUDA_SUCCESS, 0, {}, 0);
  to.call_host({4, {first + 3}});
  to.print(console::output, 0, "text");
  to.sticky(CUDA_ERROR_ILLEGAL_ADDRESS);
}

} // namespace

BOOST_AUTO_TEST_SUITE(divergence)

// -- the parts ----------------------------------------------------------------

BOOST_AUTO_TEST_CASE(held_answers_come_later_and_in_order) {
  auto to = std::make_shared<noting_sink>();
  held_answers front{to};
  tell_all(front, 10);
  auto before = std::exchange(to->told, {});
  BOOST_TEST(before.size() == 6u);
  front.hold();
  tell_all(front, 10);
  BOOST_TEST(to->told.empty());
  front.release();
  BOOST_TEST(to->told == before, boost::test_tools::per_element());
  front.answer({1, {20}}, CUDA_SUCCESS, 0);
  BOOST_TEST(to->told.back() == "answer 20");
}

BOOST_AUTO_TEST_CASE(a_short_result_tells_from_where_on_it_differs) {
  replay_checks checks;
  auto before = bytes_of({1, 2, 3, 4});
  auto now = bytes_of({1, 2, 255, 4});
  checks.compare({8}, {7, before}, 7, before);
  BOOST_TEST(!checks.differs());
  checks.compare({16}, {7, before}, 9, now);
  checks.compare({24}, {7, {}}, 9, now);
  BOOST_TEST(checks.differs());
  auto found = checks.take_differences();
  BOOST_TEST(found.total == 2u);
  BOOST_TEST(found.first == "call 16: from byte 2 of 4 on, the program has "
                            "read 03 04 and the replay gives ff 04");
  BOOST_TEST(checks.take_differences().total == 0u);
  BOOST_TEST(checks.differences().total == 2u);
}

BOOST_AUTO_TEST_CASE(short_results_of_one_digest_are_told_apart) {
  replay_checks checks;
  checks.compare({8}, {7, bytes_of({1, 2})}, 7, bytes_of({1, 3}));
  BOOST_TEST(checks.differences().first == "call 8: from byte 1 of 2 on, the "
                                           "program has read 02 and the replay "
                                           "gives 03");
}

BOOST_AUTO_TEST_CASE(checks_are_idle_when_all_room_was_given_back) {
  auto checks = std::make_shared<replay_checks>();
  int idle = 0;
  checks->when_idle([&] { ++idle; });
  BOOST_TEST(checks->is_idle());
  auto first = replay_checks::take(checks, 8);
  auto second = replay_checks::take(checks, 8);
  first.reset();
  BOOST_TEST(!checks->is_idle());
  BOOST_TEST(idle == 0);
  second.reset();
  BOOST_TEST(checks->is_idle());
  BOOST_TEST(idle == 1);
}

// -- a session ----------------------------------------------------------------

BOOST_DATA_TEST_CASE_F(strict_world, a_replay_that_is_the_same_is_not_noticed,
                       boost::unit_test::data::make(both)) {
  auto first = begin(transport::automatic, !sample.same_host);
  add(4);
  BOOST_TEST(read_counter() == 4u);
  replace_with(first, 0, sample.same_host);
  add(1);
  BOOST_TEST(read_counter() == 5u);
  BOOST_TEST(text_of("session-replayed") != "");
  BOOST_TEST(!told("session-lost", 0ms));
  BOOST_TEST(!told("replay-differs", 0ms));
}

BOOST_DATA_TEST_CASE_F(strict_world, a_replay_that_differs_is_an_error,
                       boost::unit_test::data::make(both)) {
  auto first = begin(transport::automatic, !sample.same_host);
  add(4);
  auto read = log.tail();
  BOOST_TEST(read_counter() == 4u);
  kill(first);
  // These calls come while nobody serves the session, so that the replay has
  // calls that were not answered yet.
  add(1);
  begin_read(2);
  drift = 1;
  lease(2, start_worker(2, sample.same_host));
  BOOST_TEST((answer_of(2) == CUDA_ERROR_DEVICE_UNAVAILABLE));
  BOOST_TEST(area.header().sticky_error.load() ==
             static_cast<std::uint32_t>(CUDA_ERROR_DEVICE_UNAVAILABLE));
  BOOST_TEST((ask(call::device_sync{}) == CUDA_ERROR_DEVICE_UNAVAILABLE));
  auto text = text_of("replay-differs");
  BOOST_TEST_CONTEXT(text) {
    BOOST_TEST(text.find("in call " + std::to_string(read) +
                         ": from byte 0 of 4 on, the program has read 04 00 00 "
                         "00 and the replay gives 05 00 00 00") !=
               std::string::npos);
  }
  BOOST_TEST(text_of("session-lost").find("on-divergence") !=
             std::string::npos);
  BOOST_TEST(!told("session-replayed", 0ms));
}

/// The user may change the setting of a running session, and the next client
/// knows it.
BOOST_DATA_TEST_CASE_F(strict_world, the_setting_changes_while_it_runs,
                       boost::unit_test::data::make({false, true}), fails) {
  using control::divergence;
  on_divergence = fails ? divergence::go_on : divergence::error;
  auto first = begin(transport::forwarded, false);
  add(4);
  BOOST_TEST(read_counter() == 4u);
  auto changed = control::recovery_terms{
      2'000, 2, fails ? divergence::error : divergence::go_on};
  lease(1, first, changed);
  BOOST_TEST(await("the next client will know it", [&] {
    auto& header = area.header();
    auto left =
        guest::decode_ticket({header.ticket.data(), header.ticket_size.load()});
    return left && left->lease.recovery == changed;
  }));
  kill_client();
  connect(transport::forwarded, true);
  BOOST_TEST((in.opened->specification.on_divergence == changed.on_divergence));
  lease(1, first); // of a manager that does not tell them
  replace_with(first, 1, false);
  BOOST_TEST((ask(call::device_sync{}) ==
              (fails ? CUDA_ERROR_DEVICE_UNAVAILABLE : CUDA_SUCCESS)));
  BOOST_TEST(text_of("replay-differs") != "");
  BOOST_TEST(told("session-lost", fails ? patience : 0ms) == fails);
}

/// The program gets nothing of a replay before it was compared, even where the
/// difference is found last.
BOOST_DATA_TEST_CASE_F(strict_world, nothing_is_told_before_the_difference,
                       boost::unit_test::data::make(both)) {
  auto first = begin(transport::automatic, !sample.same_host);
  BOOST_TEST(read_counter() == 0u);
  kill(first);
  append(call::device_sync{}, 3);
  begin_read(2);
  drift = 1;
  auto second = start_worker(2, sample.same_host);
  lease(2, second);
  BOOST_TEST((answer_of(3) == CUDA_SUCCESS)); // so far it is the same
  BOOST_TEST((answer_of(2) == CUDA_SUCCESS));
  add(4);
  BOOST_TEST(read_counter() == 5u);
  kill(second);
  append(call::device_sync{}, 3);
  drift = 2;
  lease(3, start_worker(3, false));
  BOOST_TEST((answer_of(3) == CUDA_ERROR_DEVICE_UNAVAILABLE));
}

/// A fault of the program's own is its error, and not a difference.
BOOST_DATA_TEST_CASE_F(strict_world, a_fault_in_the_replay_is_the_error,
                       boost::unit_test::data::make(both)) {
  auto first = begin(transport::automatic, !sample.same_host);
  add(4);
  BOOST_TEST(read_counter() == 4u);
  work_error = CUDA_ERROR_ILLEGAL_ADDRESS;
  replace_with(first, 1, sample.same_host);
  BOOST_TEST((ask(call::device_sync{}) == CUDA_ERROR_ILLEGAL_ADDRESS));
  BOOST_TEST(area.header().sticky_error.load() ==
             static_cast<std::uint32_t>(CUDA_ERROR_ILLEGAL_ADDRESS));
  BOOST_TEST(text_of("session-replayed") != "");
  BOOST_TEST(!told("session-lost", 0ms));
  BOOST_TEST(!told("replay-differs", 0ms));
}

/// The next client has to hear it from the worker that knows it.
BOOST_AUTO_TEST_CASE(a_worker_in_doubt_takes_no_call) {
  strict_world it;
  auto first = it.begin(transport::forwarded, false);
  it.add(4);
  BOOST_TEST(it.read_counter() == 4u);
  it.kill(first);
  it.drift = 1;
  auto second = it.start_worker(2, false);
  it.lease(2, second);
  BOOST_TEST(it.text_of("session-lost") != "");
  // The worker may publish later what it has executed: the allocation, four
  // launches and the read.
  constexpr std::uint64_t calls = 6;
  BOOST_TEST(it.await("the worker's calls are published",
                      [&] { return second.gauges->calls.load() >= calls; }));
  it.add(1);
  BOOST_TEST((it.ask(call::device_sync{}) == CUDA_ERROR_DEVICE_UNAVAILABLE));
  BOOST_TEST(second.gauges->calls.load() == calls);
}

/// A state of such a worker is none of the program's.
BOOST_AUTO_TEST_CASE(a_worker_in_doubt_does_not_pause) {
  strict_world it;
  auto first = it.begin(transport::forwarded, false);
  it.add(4);
  BOOST_TEST(it.read_counter() == 4u);
  it.kill(first);
  it.drift = 1;
  auto second = it.start_worker(2, false);
  it.lease(2, second);
  BOOST_TEST(it.text_of("session-lost") != "");
  caf::scoped_actor self{it.system};
  auto ask = [&](auto what) {
    return self->request(second.actor, caf::infinite, what);
  };
  auto fails = [](const vgpu_place&) { BOOST_ERROR("it was not refused"); };
  auto refused = [](const caf::error& why) {
    BOOST_TEST(is_refusal(why, vgpu_refusal::refused));
  };
  auto pause = ask(pause_vgpu{{2}});
  ask(where_is_vgpu{})
      .receive(
          [](const vgpu_place& x) {
            BOOST_TEST((x.phase == vgpu_phase::pausing));
          },
          [](const caf::error& why) { BOOST_ERROR(to_string(why)); });
  ask(pause_vgpu{{2}}).receive(fails, refused);
  ask(resume_vgpu{{2}})
      .receive([](const vgpu_place&) {},
               [](const caf::error& why) { BOOST_ERROR(to_string(why)); });
  pause.receive(fails, refused);
}

BOOST_DATA_TEST_CASE_F(world, a_program_that_continues_is_told_what_differs,
                       boost::unit_test::data::make(both)) {
  auto first = begin(transport::automatic, !sample.same_host);
  add(4);
  BOOST_TEST(read_counter() == 4u);
  drift = 1;
  kill(first);
  lease(2, start_worker(2, sample.same_host));
  BOOST_TEST(read_counter() == 5u);
  std::string text;
  BOOST_TEST(in.wait([&] {
    return in.has<control::event>([&](auto& x) {
      text = x.text;
      return x.kind == "replay-differs";
    });
  }));
  BOOST_TEST(text.find("the program has read 04 00 00 00") !=
             std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
