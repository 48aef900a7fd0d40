// The order of work that waited for a value once, when it is replayed and the
// value is no longer in memory.
#include "actors/worker/session/answers.hpp"
#include "actors/worker/session/replayed_waits.hpp"
#include "devices/cpu/cpu_device.hpp"
#include "tests/unit/actors/plain_device.hpp"
#include "tests/unit/actors/session_fixture.hpp"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

using namespace vgpu;

namespace {

constexpr stream_id a{10}, b{11}, c{12};

struct replay {
  // Declared before the device, whose threads write them.
  std::mutex lock;
  std::condition_variable changed;
  std::string order;
  std::map<char, std::function<void()>> held;
  std::unique_ptr<device::device> dev = device::open_cpu_device({}, 1 << 20);
  replayed_waits waits;
  replayed_waits::stream_set blocking;

  replay() {
    for (auto stream : {a, b, c})
      BOOST_REQUIRE(dev->create_stream(stream, true, 0).ok());
  }
  ~replay() {
    for (auto& [name, go_on] : held)
      go_on();
  }

  /// Enqueues work that takes no time.
  void work(stream_id in, char name) {
    auto ok = dev->enqueue_host(in, [this, name](auto go_on) {
      note(name);
      go_on();
    });
    BOOST_REQUIRE(ok.ok());
  }
  /// Enqueues work that is not done before finish().
  void long_work(stream_id in, char name) {
    auto ok = dev->enqueue_host(in, [this, name](auto go_on) {
      std::lock_guard guard{lock};
      held[name] = go_on;
      changed.notify_all();
    });
    BOOST_REQUIRE(ok.ok());
  }
  void finish(char name) {
    std::unique_lock guard{lock};
    changed.wait(guard, [&] { return held.contains(name); });
    auto go_on = held.extract(name).mapped();
    order += name;
    guard.unlock();
    go_on();
  }
  void note(char name) {
    std::lock_guard guard{lock};
    order += name;
    changed.notify_all();
  }
  bool is_done(char name) {
    std::lock_guard guard{lock};
    return order.find(name) != std::string::npos;
  }
  std::string when_done(std::size_t count) {
    std::unique_lock guard{lock};
    changed.wait(guard, [&] { return order.size() == count; });
    return order;
  }
  /// Creates a stream that waits for the legacy one, and which that one awaits.
  void make_blocking(stream_id id) {
    BOOST_REQUIRE(dev->create_stream(id, false, 0).ok());
    blocking.insert(id);
  }
  void begin(stream_id in, std::uint64_t call) {
    BOOST_REQUIRE(waits.begin(*dev, {0, in}, call_number{call}, blocking).ok());
  }
  bool end(std::uint64_t call) {
    replayed_waits::streams_of all{dev.get(), {legacy_stream, a, b, c}};
    all.streams.insert(all.streams.end(), blocking.begin(), blocking.end());
    return waits.end(call_number{call}, {&all, 1});
  }
};

/// A device that does as a GPU does: while a blocking stream is stopped, the
/// legacy stream stops as well, and so does a query of the legacy stream.
class device_with_a_stopped_stream : public test::plain_device {
public:
  bool stopped = false;
  bool went_on = false;

  void when_done(std::optional<stream_id> of,
                 vgpu::device::completion done) override {
    if (stopped && of == legacy_stream)
      unanswered_.push_back(std::move(done));
    else
      done(CUDA_SUCCESS);
  }
  status enqueue_host(stream_id,
                      std::function<void(std::function<void()>)> f) override {
    f([this] { went_on = true; });
    return {};
  }

private:
  std::vector<vgpu::device::completion> unanswered_;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(waits_in_a_replay, replay)

BOOST_AUTO_TEST_CASE(only_the_stream_of_a_wait_is_held) {
  BOOST_TEST(!waits.any());
  BOOST_TEST(!end(7));
  begin(a, 1);
  BOOST_TEST(waits.any());
  BOOST_TEST(waits.holds({0, a}));
  BOOST_TEST(!waits.holds({0, b}));
  BOOST_TEST(end(1));
  BOOST_TEST(!waits.any());
  BOOST_TEST(!end(1));
}

/// Such work may wait for it, by a word in memory.
BOOST_AUTO_TEST_CASE(a_wait_does_not_end_behind_work_not_done_before) {
  begin(a, 1);
  work(a, 'A');
  work(b, 'B');
  waits.stops(*dev, {0, b}, call_number{2}, blocking);
  long_work(b, 'b');
  BOOST_TEST(end(1));
  BOOST_TEST(when_done(2) == "BA");
  finish('b');
  BOOST_TEST(when_done(3) == "BAb");
  BOOST_TEST(!end(2));
  BOOST_TEST(!waits.any());
}

BOOST_AUTO_TEST_CASE(a_wait_does_not_end_behind_a_stopped_legacy_stream) {
  device_with_a_stopped_stream gpu;
  BOOST_REQUIRE(waits.begin(gpu, {0, a}, call_number{1}, {b}).ok());
  waits.stops(gpu, {0, b}, call_number{2}, {b});
  gpu.stopped = true;
  replayed_waits::streams_of all{&gpu, {legacy_stream, a, b}};
  BOOST_TEST(waits.end(call_number{1}, {&all, 1}));
  BOOST_TEST(gpu.went_on);
}

BOOST_AUTO_TEST_CASE(a_wait_ends_behind_earlier_work) {
  begin(a, 1);
  work(a, 'A');
  long_work(b, 'b');
  work(b, 'B');
  BOOST_TEST(end(1));
  BOOST_TEST(!is_done('A'));
  finish('b');
  BOOST_TEST(when_done(3) == "bBA");
}

BOOST_AUTO_TEST_CASE(two_streams_hand_over_to_one_another) {
  // b: wait 1, work, wait 3; a: wait 2, work. a's ends before b's second.
  begin(b, 1);
  long_work(b, 'b');
  begin(b, 3);
  work(b, 'C');
  begin(a, 2);
  work(a, 'A');
  BOOST_TEST(end(1));
  BOOST_TEST(end(2));
  BOOST_TEST(!is_done('A'));
  finish('b');
  BOOST_TEST(when_done(2) == "bA");
  BOOST_TEST(end(3));
  BOOST_TEST(when_done(3) == "bAC");
}

BOOST_AUTO_TEST_CASE(a_wait_does_not_end_behind_work_that_waits_for_it) {
  begin(a, 1);
  event_id event{5};
  BOOST_REQUIRE(dev->create_event(event, false).ok());
  waits.recorded(0, event, a);
  BOOST_REQUIRE(dev->record_event(event, a).ok());
  BOOST_TEST(!waits.stays(0, event));
  long_work(b, 'b'); // before the event, and so before the end
  waits.waits(*dev, {0, b}, 0, event, blocking);
  BOOST_REQUIRE(dev->wait_event(b, event).ok());
  work(b, 'B');
  work(a, 'A');
  BOOST_TEST(end(1));
  BOOST_TEST(!is_done('A'));
  finish('b');
  auto done = when_done(3);
  BOOST_TEST((done == "bAB" || done == "bBA"));
}

BOOST_AUTO_TEST_CASE(a_stream_behind_another_is_held_with_it) {
  begin(a, 1);
  waits.waits(*dev, {0, legacy_stream}, a, blocking);
  BOOST_TEST(waits.holds({0, legacy_stream}));
  BOOST_TEST(end(1));
  BOOST_TEST(!waits.holds({0, legacy_stream}));
}

BOOST_AUTO_TEST_CASE(the_legacy_stream_is_asked_before_it_would_wait) {
  // On a GPU the query of the legacy stream may wait for the blocking stream.
  constexpr stream_id d{13};
  make_blocking(d);
  long_work(legacy_stream, 'l');
  begin(d, 1);
  work(d, 'A');
  BOOST_TEST(!waits.holds({0, legacy_stream}));
  waits.waits(*dev, {0, legacy_stream}, d, blocking);
  work(legacy_stream, 'L'); // behind the blocking stream's wait
  BOOST_TEST(end(1));
  BOOST_TEST(!is_done('A'));
  finish('l');
  BOOST_TEST(when_done(3) == "lAL");
}

/// A blocking stream that waits for a wait by an event alone holds queries of
/// the legacy stream as well, also for waits that open later in that stream.
BOOST_AUTO_TEST_CASE(the_legacy_stream_is_asked_before_a_follower_waits) {
  constexpr stream_id d{13};
  constexpr event_id event{5};
  make_blocking(d);
  BOOST_REQUIRE(dev->create_event(event, false).ok());
  long_work(legacy_stream, 'l');
  begin(a, 1);
  work(a, 'A');
  waits.recorded(0, event, a);
  BOOST_REQUIRE(dev->record_event(event, a).ok());
  waits.waits(*dev, {0, d}, 0, event, blocking);
  BOOST_REQUIRE(dev->wait_event(d, event).ok());
  begin(d, 2);
  work(d, 'D');
  BOOST_TEST(end(1));
  BOOST_TEST(!is_done('A'));
  finish('l');
  BOOST_TEST(when_done(2) == "lA");
  BOOST_TEST(end(2));
  BOOST_TEST(when_done(3) == "lAD");
}

/// On a GPU a query of a blocking stream waits for the legacy one.
BOOST_AUTO_TEST_CASE(blocking_streams_are_asked_before_the_legacy_one_waits) {
  constexpr stream_id d{13};
  make_blocking(d);
  long_work(d, 'd');
  begin(legacy_stream, 1);
  BOOST_TEST(waits.holds({0, d}));
  work(d, 'D'); // behind the legacy stream's wait
  begin(a, 2);
  work(a, 'A');
  BOOST_TEST(end(2));
  BOOST_TEST(!is_done('A'));
  finish('d');
  BOOST_TEST(when_done(2) == "dA");
  BOOST_TEST(end(1));
  BOOST_TEST(when_done(3) == "dAD");
}

BOOST_AUTO_TEST_SUITE_END()

namespace {

/// A session whose calls another worker has executed. Some of them were
/// answered.
struct replayed_session : a_session {
  class program final : public unheard {
  public:
    std::atomic<std::uint64_t> answered{0}; // the wait that has ended
    std::atomic<std::uint64_t> learned{0};  // by what the program learned
    std::promise<void> called;              // by the wait that ends now

    bool wanted(const waiter& x) const override {
      return x.call.value != answered.load() && x.call.value != learned.load();
    }
    void call_host(const waiter&) override { called.set_value(); }
  };
  static constexpr std::chrono::seconds long_enough{120};
  static constexpr device_address words = at;

  std::shared_ptr<program> sink = std::make_shared<program>();

  replayed_session() {
    exec->serve(sink);
    exec->replays_until(~std::uint64_t{0});
    allocate(at, granule_bytes);
    for (auto stream : {a, b})
      call_it(call::stream_create{{stream}, 1, 0});
  }
  /// Returns the number of the next call.
  std::uint64_t next() const { return number + 8; }
  std::uint64_t wait(stream_id in, std::uint64_t index) {
    auto call = next();
    call_it(call::wait_value{
        .stream = {in},
        .address = words + index * 4,
        .value = 1,
        .bytes = 4,
        .test = static_cast<std::uint32_t>(value_test::equal)});
    return call;
  }
  void set(stream_id in, std::uint64_t index) {
    call_it(call::fill{.stream = {in},
                       .to = {words + index * 4, 4, 4},
                       .value = 1,
                       .element_bytes = 4,
                       .size = {1, 1, 1}});
  }
  /// Makes a wait that had ended.
  std::uint64_t ended_wait(stream_id in, std::uint64_t index) {
    sink->answered = next();
    return wait(in, index);
  }
  /// Enqueues work that is not done before the result is called.
  std::future<std::function<void()>> long_work(stream_id in) {
    auto arrived = std::make_shared<std::promise<std::function<void()>>>();
    auto ok = exec->on(0).enqueue_host(in, [=](std::function<void()> go_on) {
      arrived->set_value(std::move(go_on));
    });
    BOOST_REQUIRE(ok.ok());
    return arrived->get_future();
  }
  std::future<void> end_of(stream_id in) {
    auto done = std::make_shared<std::promise<void>>();
    exec->on(0).when_done(in, [=](CUresult) { done->set_value(); });
    return done->get_future();
  }
  static bool comes(const std::future<void>& x) {
    return x.wait_for(long_enough) == std::future_status::ready;
  }
  static bool stays_away(const std::future<void>& x) {
    return x.wait_for(std::chrono::milliseconds{50}) ==
           std::future_status::timeout;
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(waits_of_a_replayed_session, replayed_session)

/// A replay never waits for work behind a wait that had not ended. That holds
/// even where the replay begins with this wait.
BOOST_AUTO_TEST_CASE(an_open_wait_may_come_before_an_ended_one) {
  auto open = wait(b, 0);
  set(b, 1);
  sink->answered = next();
  auto ended = wait(a, 2);
  set(a, 0); // what b waits for
  call_it(call::host_done{ended});
  BOOST_REQUIRE((sink->called.get_future().wait_for(long_enough) ==
                 std::future_status::ready));
  call_it(call::host_done{open});
  std::promise<void> done;
  exec->on(0).when_done(b, [&](CUresult) { done.set_value(); });
  BOOST_REQUIRE(
      (done.get_future().wait_for(long_enough) == std::future_status::ready));
  BOOST_TEST(word(0, 1) == 1u);
}

/// The program waited for the device, and the log has that before the end of a
/// wait for a value. Work after that end follows what was behind the wait, even
/// if another wait was open then.
BOOST_AUTO_TEST_CASE(work_behind_a_wait_comes_before_what_the_program_did) {
  constexpr event_id event{1};
  call_it(call::event_create{{event}, 0});
  for (auto by_event : {false, true})
    for (auto is_other_open : {false, true}) {
      sink->answered = next();
      auto ended = wait(a, 0);
      std::promise<std::function<void()>> arrived;
      auto held = exec->on(0).enqueue_host(
          a, [&](std::function<void()> go_on) { arrived.set_value(go_on); });
      BOOST_REQUIRE(held.ok());
      call_it(call::event_record{{event}, {a}});
      sink->learned = next();
      if (by_event)
        call_it(call::event_sync{{event}});
      else
        call_it(call::device_sync{});
      std::uint64_t other = 0;
      if (is_other_open) {
        sink->answered = next();
        other = wait(b, 0);
      }
      call_it(call::host_done{ended});
      if (is_other_open)
        call_it(call::host_done{other});
      set(b, 1);
      auto go_on = arrived.get_future().get();
      BOOST_TEST(!exec->on(0).idle(b));
      go_on();
      std::promise<void> done;
      exec->on(0).when_done(b, [&](CUresult) { done.set_value(); });
      BOOST_REQUIRE((done.get_future().wait_for(long_enough) ==
                     std::future_status::ready));
    }
}

/// A wait of one stream changes nothing for what the program learns of others.
BOOST_AUTO_TEST_CASE(what_was_learned_while_a_wait_was_open_comes_first) {
  call_it(call::stream_create{{c}, 1, 0});
  auto open = ended_wait(a, 0);
  auto work = long_work(b);
  sink->learned = next();
  call_it(call::stream_sync{{b}});
  set(c, 1);
  auto done = end_of(c);
  BOOST_TEST(stays_away(done));
  work.get()();
  BOOST_TEST(comes(done));
  call_it(call::host_done{open});
  BOOST_TEST(comes(end_of(a)));
}

/// The program waited for the device while a blocking stream waited for a
/// value. That waits for the legacy stream's work, and does not make this
/// stream wait for the value, nor other blocking ones.
BOOST_AUTO_TEST_CASE(a_wait_for_the_device_does_not_join_blocking_streams) {
  constexpr stream_id waiting{13}, other{14};
  for (auto stream : {waiting, other})
    call_it(call::stream_create{{stream}, 0, 0});
  auto work = long_work(legacy_stream);
  auto value = ended_wait(waiting, 0);
  sink->learned = next();
  call_it(call::device_sync{});
  set(other, 0);
  set(b, 1);
  call_it(call::host_done{value});
  auto others = end_of(b);
  BOOST_TEST(stays_away(others));
  work.get()();
  BOOST_TEST(comes(others));
  BOOST_TEST(comes(end_of(waiting)));
}

/// Other streams come to stand while a blocking stream waits for a value. That
/// must not put an idle blocking stream behind the wait, by the legacy one.
BOOST_AUTO_TEST_CASE(idle_blocking_streams_are_not_behind_a_wait) {
  constexpr stream_id waiting{13}, idle{14};
  for (auto stream : {waiting, idle})
    call_it(call::stream_create{{stream}, 0, 0});
  auto work = long_work(b);
  auto value = ended_wait(waiting, 0);
  sink->learned = next();
  call_it(call::stream_sync{{b}});
  call_it(call::host_call{{a}});
  call_it(call::host_done{number});
  set(idle, 0);
  call_it(call::host_done{value});
  work.get()();
  BOOST_TEST(comes(end_of(waiting)));
  BOOST_TEST(comes(end_of(idle)));
}

/// The program freed memory whose work was done, and allocated it again while a
/// stream waited for a value. Work that a replay has not done yet delays the
/// memory, but the wait does not.
BOOST_AUTO_TEST_CASE(memory_that_comes_again_does_not_wait_for_a_wait) {
  constexpr device_address again = at + 8 * granule_bytes;
  allocate(again, granule_bytes);
  auto work = long_work(b);
  call_it(call::mem_free{again, granule_bytes});
  auto value = ended_wait(a, 0);
  allocate(again, granule_bytes);
  set(b, 1);
  call_it(call::host_done{value});
  auto end = end_of(a);
  BOOST_TEST(stays_away(end));
  work.get()();
  BOOST_TEST(comes(end));
}

/// Work behind a function that ends later was not done, and may need what
/// follows the wait: the function may wait for that.
BOOST_AUTO_TEST_CASE(a_wait_ends_ahead_of_work_behind_a_function) {
  call_it(call::host_call{{b}});
  auto function = number;
  set(b, 0);
  auto value = ended_wait(a, 1);
  call_it(call::host_done{value});
  BOOST_TEST(comes(end_of(a)));
  auto behind = end_of(b);
  BOOST_TEST(stays_away(behind));
  call_it(call::host_done{function});
  BOOST_TEST(comes(behind));
}

BOOST_AUTO_TEST_SUITE_END()
