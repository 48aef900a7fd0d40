// Programs whose results are held back until a snapshot covers them.
#include "actors/worker/session/result_cover.hpp"
#include "tests/unit/actors/data_plane_fixture.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>

#include <unistd.h>

using namespace vgpu;
using namespace vgpu::test;
using namespace std::chrono_literals;
namespace data_of = boost::unit_test::data;

namespace {

/// Begins under divergence::snapshot, without any other snapshot. A sample says
/// where the second worker is. In one process only one worker can map the
/// program's log, so the first one is in the other place.
struct covered_world : world {
  covered_world() {
    on_divergence = control::divergence::snapshot;
    protect_cost = 0;
  }

  control_header& header() { return area.header(); }

  running_worker begin_at(bool same_host) {
    return begin(transport::automatic, same_host);
  }

  /// Kills the worker, and starts one whose results differ by `by`.
  running_worker replace_with(const running_worker& former, std::uint32_t by,
                              bool same_host, std::uint64_t next = 2) {
    drift = by;
    kill(former);
    auto worker = start_worker(next, same_host);
    lease(next, worker);
    return worker;
  }

  bool nothing_differs() { return !told("replay-differs", 0ms) && !lost(); }
  bool lost() { return told("session-lost", 0ms); }

  std::uint32_t result_at(std::uint64_t offset) {
    std::uint32_t value = 0;
    std::memcpy(&value, area.arena().data() + offset, 4);
    return value;
  }

  /// Appends a host function, and returns when the program has to run it.
  call_number call_host(slot_index slot) {
    auto call = append(call::host_call{{legacy_stream}}, slot);
    BOOST_TEST(await("the program is called", [&] {
      return area.at(slot).state ==
             static_cast<std::uint32_t>(slot_state::called);
    }));
    return call;
  }
};

} // namespace

BOOST_AUTO_TEST_SUITE(cover)

// -- what is covered ----------------------------------------------------------

BOOST_AUTO_TEST_CASE(results_need_cover_only_where_it_is_demanded) {
  result_cover it;
  it.note_varying(100);
  BOOST_TEST(it.admits());
  it.demand(true);
  BOOST_TEST(!it.admits());
  it.covers(92);
  BOOST_TEST(!it.admits());
  it.covers(100);
  BOOST_TEST(it.admits());
  it.covers(8); // an old message
  BOOST_TEST(it.admits());
  it.note_varying(108);
  BOOST_TEST(!it.admits());
}

BOOST_AUTO_TEST_CASE(conditions_of_graphs_are_left_out) {
  result_cover it;
  it.leave_out(1000, 100);
  BOOST_TEST(!it.is_left_out(999));
  BOOST_TEST(it.is_left_out(1000));
  BOOST_TEST(it.is_left_out(1099));
  BOOST_TEST(!it.is_left_out(1100));
  it.include(1000);
  BOOST_TEST(!it.is_left_out(1000));
}

// -- a session ----------------------------------------------------------------

BOOST_DATA_TEST_CASE_F(covered_world, what_was_read_cannot_differ,
                       data_of::make(both)) {
  auto first = begin_at(!sample.same_host);
  add(4);
  BOOST_TEST(read_counter() == 4u);
  add(1); // the program has not read this, so it may differ
  BOOST_TEST((ask(call::device_sync{}) == CUDA_SUCCESS));
  auto second = replace_with(first, 10, sample.same_host);
  BOOST_TEST(read_counter() == 15u);
  replace_with(second, 100, !sample.same_host, 3);
  BOOST_TEST(read_counter() == 15u);
  BOOST_TEST(nothing_differs());
}

/// The worker dies before the program has the result: the next one brings what
/// a snapshot covers, and takes one in the middle of its replay.
BOOST_DATA_TEST_CASE_F(covered_world, a_replay_waits_for_a_snapshot_too,
                       data_of::make(both)) {
  auto first = begin_at(!sample.same_host);
  add(4);
  BOOST_TEST(read_counter() == 4u);
  kill(first);
  add(1);
  begin_read(2);
  add(1);
  drift = 10;
  auto second = start_worker(2, sample.same_host);
  lease(2, second);
  BOOST_TEST((answer_of(2) == CUDA_SUCCESS));
  BOOST_TEST(result_at(4096) == 15u);
  BOOST_TEST(read_counter() == 26u);
  replace_with(second, 100, !sample.same_host, 3);
  BOOST_TEST(read_counter() == 26u);
  BOOST_TEST(nothing_differs());
}

BOOST_DATA_TEST_CASE_F(covered_world, results_that_cannot_differ_are_not_held,
                       data_of::make(both)) {
  begin_at(sample.same_host);
  add(4);
  BOOST_TEST(read_counter() == 4u);
  auto covered = header().covered.load();
  BOOST_TEST(covered != 0u);
  BOOST_TEST(read_counter() == 4u);
  append(call::fill{.stream = {legacy_stream},
                    .to = {counter, 0, 0},
                    .value = 1,
                    .element_bytes = 1,
                    .size = {4, 1, 1}});
  BOOST_TEST((ask(call::device_sync{}) == CUDA_SUCCESS));
  BOOST_TEST(read_counter() == 0x01010101u);
  BOOST_TEST(header().covered.load() == covered);
  add(1);
  BOOST_TEST((ask(call::device_sync{}) == CUDA_SUCCESS)); // waits for no cover
  BOOST_TEST(header().covered.load() == covered);
  BOOST_TEST(read_counter() == 0x01010102u);
  BOOST_TEST(header().covered.load() > covered);
}

BOOST_DATA_TEST_CASE_F(covered_world, other_settings_hold_nothing,
                       data_of::make({false, true}), compares) {
  on_divergence =
      compares ? control::divergence::error : control::divergence::go_on;
  begin_at(false);
  add(4);
  BOOST_TEST(read_counter() == 4u);
  BOOST_TEST(header().covered.load() == 0u);
}

/// The user may change the setting of a running session.
BOOST_DATA_TEST_CASE_F(covered_world, cover_begins_while_the_program_runs,
                       data_of::make(both)) {
  on_divergence = control::divergence::go_on;
  auto first = begin_at(!sample.same_host);
  std::uint32_t sum = 4;
  add(4);
  BOOST_TEST(read_counter() == sum);
  BOOST_TEST(header().covered.load() == 0u);
  lease(1, first, {2'000, 0, control::divergence::snapshot});
  BOOST_TEST(await("a result is covered", [&] {
    add(1);
    return read_counter() == ++sum && header().covered.load() != 0;
  }));
  replace_with(first, 10, sample.same_host);
  BOOST_TEST(read_counter() == sum);
  BOOST_TEST(nothing_differs());
}

BOOST_DATA_TEST_CASE_F(covered_world, cover_ends_while_the_program_runs,
                       data_of::make(both)) {
  auto first = begin_at(sample.same_host);
  std::uint32_t sum = 0;
  lease(1, first, {2'000, 0, control::divergence::go_on});
  BOOST_TEST(await("a result needs no cover", [&] {
    add(1);
    auto covered = header().covered.load();
    return read_counter() == ++sum && header().covered.load() == covered;
  }));
}

BOOST_DATA_TEST_CASE_F(covered_world, a_lowered_protection_holds_nothing,
                       data_of::make(both)) {
  begin_at(sample.same_host);
  (void)area.lower_protection();
  add(4);
  BOOST_TEST(read_counter() == 4u);
  BOOST_TEST(header().covered.load() == 0u);
}

BOOST_DATA_TEST_CASE_F(covered_world, a_session_without_a_state_is_refused,
                       data_of::make(both)) {
  hides_heap = true;
  begin_at(sample.same_host);
  add(4);
  BOOST_TEST((ask(call::device_sync{}) == CUDA_SUCCESS));
  begin_read(2);
  BOOST_TEST((answer_of(2) == CUDA_ERROR_DEVICE_UNAVAILABLE));
  auto text = text_of("session-lost");
  BOOST_TEST_CONTEXT(text) {
    BOOST_TEST(text.find("on-divergence is snapshot") != std::string::npos);
    BOOST_TEST(text.find("kernels call malloc") != std::string::npos);
  }
}

BOOST_DATA_TEST_CASE_F(covered_world, a_session_without_room_is_refused,
                       data_of::make(both)) {
  std::vector<unique_fd> none;
  places = state_places::take(none, 0);
  begin_at(sample.same_host);
  add(4);
  begin_read(2);
  BOOST_TEST((answer_of(2) == CUDA_ERROR_DEVICE_UNAVAILABLE));
  BOOST_TEST(text_of("session-lost").find("no room for one") !=
             std::string::npos);
}

/// A failure of the program's own is its error.
BOOST_DATA_TEST_CASE_F(covered_world, a_fault_is_told_in_place_of_a_result,
                       data_of::make(both)) {
  work_error = CUDA_ERROR_ILLEGAL_ADDRESS;
  connect(transport::automatic);
  lease(1, start_worker(1, sample.same_host));
  load();
  BOOST_TEST(answer_of(1).has_value());
  add(4);
  begin_read(2);
  BOOST_TEST((answer_of(2) == CUDA_ERROR_ILLEGAL_ADDRESS));
  BOOST_TEST(!lost());
}

/// A snapshot that cannot be used leaves nothing to go on with: the whole
/// journal would bring other results than the program has read.
BOOST_AUTO_TEST_CASE(the_whole_journal_is_no_way_back) {
  covered_world it;
  auto first = it.begin_at(false);
  it.add(4);
  BOOST_TEST(it.read_counter() == 4u);
  auto newest = it.header().newest.load();
  BOOST_REQUIRE(newest != 0u);
  BOOST_REQUIRE(::ftruncate(it.places.at(newest - 1), 0) == 0);
  it.replace_with(first, 10, false);
  it.begin_read(2);
  BOOST_TEST((it.answer_of(2) == CUDA_ERROR_DEVICE_UNAVAILABLE));
  BOOST_TEST(it.text_of("session-lost").find("its snapshot cannot be used") !=
             std::string::npos);
}

/// The next client hears of the read from the worker.
BOOST_AUTO_TEST_CASE(a_read_is_held_for_the_next_client) {
  covered_world it;
  auto first = it.begin(transport::forwarded, false);
  it.add(4);
  BOOST_TEST(it.read_counter() == 4u);
  it.kill_client();
  it.add(1);
  it.begin_read(2);
  it.connect(transport::forwarded, true);
  it.lease(1, first);
  BOOST_TEST((it.answer_of(2) == CUDA_SUCCESS));
  BOOST_TEST(it.result_at(4096) == 5u);
  it.replace_with(first, 10, false);
  BOOST_TEST(it.read_counter() == 5u);
  BOOST_TEST(it.nothing_differs());
}

/// A state with which the session moves covers nothing: it is gone once the
/// next worker has it.
BOOST_AUTO_TEST_CASE(a_moved_session_is_covered_by_its_snapshot_alone) {
  covered_world it;
  auto first = it.begin(transport::forwarded, false);
  it.add(4);
  BOOST_TEST(it.read_counter() == 4u);
  it.add(1);
  BOOST_TEST(it.pause(1) == "");
  it.wait_for(first);
  auto second = it.start_worker(2, false);
  it.lease(2, second);
  BOOST_TEST(it.read_counter() == 5u);
  it.replace_with(second, 10, false, 3);
  BOOST_TEST(it.read_counter() == 5u);
  BOOST_TEST(it.nothing_differs());
}

/// The function's end stands in the log behind the read that waits. The next
/// worker finds that end, and not the function.
BOOST_DATA_TEST_CASE_F(covered_world, a_host_function_ends_behind_a_held_read,
                       data_of::make(both)) {
  auto first = begin_at(!sample.same_host);
  add(4);
  auto call = call_host(3);
  begin_read(2);
  append(call::host_done{call.value});
  area.at(3).state = 0;
  BOOST_TEST((answer_of(2) == CUDA_SUCCESS));
  BOOST_TEST(result_at(4096) == 4u);
  add(1);
  auto second = replace_with(first, 10, sample.same_host);
  // This function is open while the end of the other one is replayed.
  auto next = call_host(3);
  append(call::host_done{next.value});
  area.at(3).state = 0;
  BOOST_TEST(read_counter() == 15u);
  BOOST_TEST(nothing_differs());
}

/// A function whose end the program would tell only behind the read.
BOOST_DATA_TEST_CASE_F(covered_world, an_open_host_function_is_not_awaited_long,
                       data_of::make(both)) {
  cover_within = 100ms;
  begin_at(sample.same_host);
  add(4);
  call_host(3);
  begin_read(2);
  BOOST_TEST((answer_of(2) == CUDA_ERROR_DEVICE_UNAVAILABLE));
  BOOST_TEST(text_of("session-lost").find("a host function or a wait") !=
             std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
