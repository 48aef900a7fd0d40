// The order between streams that CUDA promises and a device does not keep.
#include "actors/worker/execute/executor.hpp"
#include "actors/worker/session/answers.hpp"
#include "actors/worker/session/stream_order.hpp"
#include "devices/cpu/cpu_device.hpp"
#include "schema/wire/call_codec.hpp"
#include "tests/unit/actors/plain_device.hpp"

#include <boost/test/unit_test.hpp>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

using namespace vgpu;

namespace {

constexpr stream_id a{10}, b{11};

/// Holds a stream until release() is called.
class hold {
public:
  hold(device::device& on, stream_id in) {
    auto ok = on.enqueue_host(in, [this](std::function<void()> x) {
      go_on_.set_value(std::move(x));
    });
    BOOST_REQUIRE(ok.ok());
  }
  void release() { go_on_.get_future().get()(); }

private:
  std::promise<std::function<void()>> go_on_;
};

struct order_fixture {
  std::unique_ptr<device::device> dev = device::open_cpu_device({}, 1 << 20);
  stream_order order;
  std::unordered_set<stream_id> streams{legacy_stream, a};
  std::uint64_t events = 0;

  order_fixture() {
    BOOST_REQUIRE(order.make_objects(*dev).ok());
    make(a);
  }

  void make(stream_id x) {
    BOOST_REQUIRE(dev->create_stream(x, true, 0).ok());
    BOOST_REQUIRE(order.begin(*dev, x).ok());
    streams.insert(x);
  }
  void join(stream_id x) { BOOST_REQUIRE(order.join(*dev, x, streams).ok()); }
  void keep() {
    for (auto x : streams)
      join(x);
    BOOST_REQUIRE(order.keep_for_new_streams(*dev, streams).ok());
  }
  /// Tells whether an event is reached that is recorded in the stream now.
  bool has_reached(stream_id x) {
    event_id event{++events};
    BOOST_REQUIRE(dev->create_event(event, false).ok());
    BOOST_REQUIRE(dev->record_event(event, x).ok());
    return *dev->query_event(event);
  }
  void wait_for(stream_id x) {
    std::promise<void> done;
    dev->when_done(x, [&](CUresult) { done.set_value(); });
    done.get_future().get();
  }
};

/// Counts the streams and events that it makes. A driver gives them memory
/// where modules lie. It is always busy.
class counting_device final : public test::plain_device {
public:
  explicit counting_device(std::size_t& made) : made_(made) {}
  status create_stream(stream_id id, bool non_blocking, int priority) override {
    ++made_;
    return plain_device::create_stream(id, non_blocking, priority);
  }
  status create_event(event_id, bool) override {
    ++made_;
    return {};
  }
  bool idle(stream_id) override { return false; }

private:
  std::size_t& made_;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(stream_orders, order_fixture)

BOOST_AUTO_TEST_CASE(a_new_stream_does_not_wait_for_a_stream_that_is_held) {
  order.after_all();
  keep();
  hold held{*dev, a};
  make(b);
  join(b);
  wait_for(b);
  BOOST_TEST(!dev->idle(a));
  held.release();
  wait_for(a);
}

BOOST_AUTO_TEST_CASE(a_new_stream_waits_for_the_work_before_the_order) {
  hold earlier{*dev, a};
  order.after_all();
  keep();
  make(b);
  join(b);
  BOOST_TEST(!has_reached(b));
  earlier.release();
  wait_for(b);
  BOOST_TEST(has_reached(b));
}

BOOST_AUTO_TEST_CASE(a_new_stream_waits_for_an_order_after_its_beginning) {
  order.after_all();
  keep();
  make(b);
  hold earlier{*dev, a};
  order.after_all();
  join(b);
  BOOST_TEST(!has_reached(b));
  earlier.release();
  wait_for(b);
}

/// Otherwise the modules that it loads later would lie elsewhere.
BOOST_AUTO_TEST_CASE(a_replay_makes_the_objects_of_the_first_run) {
  std::size_t made = 0;
  std::vector<std::unique_ptr<device::device>> devices;
  devices.push_back(std::make_unique<counting_device>(made));
  executor exec{std::move(devices), 1 << 20};
  exec.serve(std::make_shared<unheard>());
  auto at_first = made;
  call::device_sync known;
  std::vector<std::uint64_t> words(call::message_words(known));
  call::encode(known, 0, words);
  exec.replays_until(16);
  // The program's wait has ended, so later work must follow what it waited for.
  BOOST_TEST(exec.execute({.call = call_number{8},
                           .end = 16,
                           .slot = 1,
                           .message = words,
                           .payload = {}},
                          nullptr));
  BOOST_TEST(made == at_first);
}

BOOST_AUTO_TEST_SUITE_END()
