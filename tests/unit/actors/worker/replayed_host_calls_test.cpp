// The order of work behind host functions, and behind copies that the program
// made while their stream waited, when they are replayed.
#include "actors/worker/session/answers.hpp"
#include "actors/worker/session/host_functions.hpp"
#include "tests/unit/actors/session_fixture.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <functional>
#include <future>
#include <thread>

using namespace vgpu;

namespace {

/// A session whose calls another worker has executed and answered.
struct replayed_session : a_session {
  static constexpr stream_id a{10}, b{11};
  class program final : public unheard {
  public:
    bool wanted(const waiter&) const override { return false; }
  };
  static constexpr device_address words = at;

  replayed_session() {
    exec->serve(std::make_shared<program>());
    exec->replays_until(~std::uint64_t{0});
    allocate(at, granule_bytes);
    for (auto stream : {a, b})
      call_it(call::stream_create{{stream}, 1, 0});
  }
  /// Makes a call, and returns its number.
  template <class Call>
  std::uint64_t made(const Call& x) {
    auto call = number + 8;
    call_it(x);
    return call;
  }
  /// Fills word `index` with 1 in the stream.
  void fill(stream_id in, std::uint64_t index) {
    call_it(call::fill{.stream = {in},
                       .to = {words + 4 * index, 4, 4},
                       .value = 1,
                       .element_bytes = 4,
                       .size = {1, 1, 1}});
  }
  /// Makes the stream `side` do what a late copy does, for which another stream
  /// stands at the call `whole`.
  void copy_late(std::uint64_t whole, stream_id side) {
    fill(side, 0);
    end_copy(whole, side);
  }
  void end_copy(std::uint64_t whole, stream_id side) {
    auto step = made(call::host_call{{side}});
    call_it(call::host_begun{step});
    call_it(call::host_done{step});
    call_it(call::host_ended{whole, {side}});
  }
  /// Uses memory in the stream `a`, which is held up until `go` has returned,
  /// or has had time to. The program had waited for the stream before.
  template <class Go>
  void used_until_gone(device_address memory, const Go& go) {
    std::promise<std::function<void()>> arrived;
    auto held = exec->on(0).enqueue_host(
        a, [&](std::function<void()> go_on) { arrived.set_value(go_on); });
    BOOST_REQUIRE(held.ok());
    call_it(call::fill{.stream = {a},
                       .to = {memory, 4, 4},
                       .value = 1,
                       .element_bytes = 4,
                       .size = {1, 1, 1}});
    call_it(call::stream_sync{{a}});
    std::promise<void> gone;
    std::thread opener{[&, returned = gone.get_future()] {
      (void)returned.wait_for(std::chrono::milliseconds{50});
      arrived.get_future().get()();
    }};
    go();
    gone.set_value();
    opener.join();
    wait_for(a);
    BOOST_TEST((exec->error() == CUDA_SUCCESS));
  }
  void wait_for(stream_id in) {
    std::promise<void> done;
    exec->on(0).when_done(in, [&](CUresult) { done.set_value(); });
    done.get_future().get();
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(replayed_host_calls, replayed_session)

/// The program's stream `a` stood still while the program copied to the device
/// through `b`. The next work in `a` uses the copy's bytes.
BOOST_AUTO_TEST_CASE(a_stream_continues_behind_its_late_copy) {
  auto whole = made(call::host_call{{a}});
  call_it(call::copy{
      .stream = {a}, .to = {words + 4}, .from = {words}, .size = {4, 1, 1}});
  // A replay does not wait for the copy, which takes long here.
  std::promise<std::function<void()>> arrived;
  auto held = exec->on(0).enqueue_host(
      b, [&](std::function<void()> go_on) { arrived.set_value(go_on); });
  BOOST_REQUIRE(held.ok());
  copy_late(whole, b);
  std::promise<void> done;
  auto end = done.get_future();
  exec->on(0).when_done(a, [&](CUresult) { done.set_value(); });
  BOOST_TEST((end.wait_for(std::chrono::milliseconds{50}) ==
              std::future_status::timeout));
  arrived.get_future().get()();
  end.get();
  BOOST_TEST(word(0, 1) == 1u);
}

/// The program waited for its stream before it knew of the function's end.
BOOST_AUTO_TEST_CASE(a_wait_for_a_host_function_delays_nothing) {
  auto function = made(call::host_call{{a}});
  call_it(call::stream_sync{{a}});
  call_it(call::host_begun{function});
  call_it(call::host_done{function});
  wait_for(a);
}

/// The copy's stream follows the program's by an event alone. The legacy stream
/// waits for the program's stream, and an order after the legacy stream must
/// not make the copy wait for it.
BOOST_AUTO_TEST_CASE(a_late_copy_does_not_wait_for_the_legacy_stream) {
  constexpr stream_id side{12}, blocking{13};
  call_it(call::stream_create{{side}, call::stream_create::apart, 0});
  call_it(call::stream_create{{blocking}, 0, 0});
  auto whole = made(call::host_call{{blocking}});
  fill(legacy_stream, 0);
  call_it(call::copy{
      .stream = {side}, .to = {words + 8}, .from = {words}, .size = {4, 1, 1}});
  end_copy(whole, side);
  wait_for(legacy_stream);
}

/// The program waited for the device while its stream stood at a copy. The log
/// has the wait before the copy.
BOOST_AUTO_TEST_CASE(a_wait_for_the_device_does_not_delay_a_late_copy) {
  constexpr stream_id side{12};
  constexpr event_id reached{1};
  call_it(call::stream_create{{side}, call::stream_create::apart, 0});
  call_it(call::event_create{{reached}, 0});
  auto value = made(call::host_call{{a}});
  call_it(call::event_record{{reached}, {a}});
  auto whole = made(call::host_call{{a}});
  call_it(call::copy{
      .stream = {a}, .to = {words + 4}, .from = {words}, .size = {4, 1, 1}});
  call_it(call::device_sync{});
  call_it(call::host_done{value});
  call_it(call::stream_wait{{side}, {reached}});
  copy_late(whole, side);
  wait_for(a);
  BOOST_TEST(word(0, 1) == 1u);
}

/// Another thread learned later that the stream's work was done, but its wait
/// stands in the log before the copy. Work that it enqueued in between must not
/// wait for the copy, which may wait for it.
BOOST_AUTO_TEST_CASE(a_wait_orders_nothing_before_a_late_copy_has_ended) {
  constexpr stream_id side{12};
  constexpr event_id first{1}, second{2};
  call_it(call::stream_create{{side}, call::stream_create::apart, 0});
  for (auto event : {first, second})
    call_it(call::event_create{{event}, 0});
  call_it(call::event_record{{first}, {a}});
  auto of_a = made(call::host_call{{a}});
  fill(a, 2);
  call_it(call::stream_sync{{a}});
  fill(b, 3);
  call_it(call::event_record{{second}, {b}});
  auto of_b = made(call::host_call{{b}});
  call_it(call::stream_wait{{side}, {second}});
  copy_late(of_b, side);
  call_it(call::stream_wait{{side}, {first}});
  copy_late(of_a, side);
  wait_for(a);
  BOOST_TEST(word(0, 2) == 1u);
}

/// From the function's end on, the program knew that the work behind it is
/// done, by a wait for the stream or for an event.
BOOST_AUTO_TEST_CASE(work_behind_a_function_comes_before_what_the_program_did) {
  constexpr event_id event{1};
  call_it(call::event_create{{event}, 0});
  for (auto by_event : {false, true}) {
    auto function = made(call::host_call{{a}});
    std::promise<std::function<void()>> arrived;
    auto held = exec->on(0).enqueue_host(
        a, [&](std::function<void()> go_on) { arrived.set_value(go_on); });
    BOOST_REQUIRE(held.ok());
    call_it(call::event_record{{event}, {a}});
    if (by_event)
      call_it(call::event_sync{{event}});
    else
      call_it(call::stream_sync{{a}});
    call_it(call::host_begun{function});
    call_it(call::host_done{function});
    fill(b, 4);
    auto go_on = arrived.get_future().get();
    BOOST_TEST(!exec->on(0).idle(b));
    go_on();
    wait_for(b);
  }
}

/// A function may wait for work that the program had waited for, and then let
/// its stream use that.
BOOST_AUTO_TEST_CASE(a_function_ends_behind_what_the_program_knew) {
  constexpr event_id event{1};
  call_it(call::event_create{{event}, 0});
  for (auto by_event : {false, true}) {
    auto function = made(call::host_call{{a}});
    std::promise<std::function<void()>> arrived;
    auto held = exec->on(0).enqueue_host(
        b, [&](std::function<void()> go_on) { arrived.set_value(go_on); });
    BOOST_REQUIRE(held.ok());
    call_it(call::event_record{{event}, {b}});
    if (by_event)
      call_it(call::event_sync{{event}});
    else
      call_it(call::stream_sync{{b}});
    call_it(call::host_begun{function});
    call_it(call::host_done{function});
    std::promise<void> done;
    auto end = done.get_future();
    exec->on(0).when_done(a, [&](CUresult) { done.set_value(); });
    BOOST_TEST((end.wait_for(std::chrono::milliseconds{50}) ==
                std::future_status::timeout));
    arrived.get_future().get()();
    end.get();
  }
}

/// The program waited for the device while the legacy stream stood at a
/// function. Blocking streams stand there as well, and the function's end does
/// not wait for what comes after it.
BOOST_AUTO_TEST_CASE(a_function_of_the_legacy_stream_ends) {
  constexpr stream_id blocking{13};
  call_it(call::stream_create{{blocking}, 0, 0});
  std::promise<std::function<void()>> arrived;
  auto held = exec->on(0).enqueue_host(
      blocking, [&](std::function<void()> go_on) { arrived.set_value(go_on); });
  BOOST_REQUIRE(held.ok());
  auto function = made(call::host_call{{legacy_stream}});
  call_it(call::device_sync{});
  fill(blocking, 1);
  call_it(call::host_begun{function});
  call_it(call::host_done{function});
  arrived.get_future().get()();
  wait_for(legacy_stream);
  wait_for(blocking);
}

/// The program waited before it let memory go that the device loses at once. A
/// replay comes to that while the work before is still under way.
BOOST_AUTO_TEST_CASE(memory_goes_after_the_work_that_used_it) {
  constexpr memory_id placed{1};
  constexpr device_address mapped = at + 64 * granule_bytes;
  auto shadow = exec->host_shadow();
  BOOST_REQUIRE_MESSAGE(shadow.ok(), shadow.why().what);
  call_it(call::host_alloc{host_window, granule_bytes});
  call_it(call::memory_create{{placed}, granule_bytes});
  call_it(call::memory_map{{placed}, mapped, granule_bytes});
  call_it(call::memory_access{mapped, granule_bytes, 3});
  used_until_gone(host_window, [this] {
    call_it(call::host_free{host_window, granule_bytes});
  });
  used_until_gone(mapped, [this] {
    call_it(call::memory_access{mapped, granule_bytes, 0});
  });
}

BOOST_AUTO_TEST_SUITE_END()
