// A governor of the cpu device's threads can stop all of its work.
#include "devices/cpu/cpu_device.hpp"
#include "devices/cpu/run/busy_time.hpp"
#include "devices/interface/governor.hpp"
#include "devices/interface/meter.hpp"
#include "tests/unit/devices/cpu/device_fixture.hpp"
#include "tests/unit/devices/judged_times.hpp"
#include "tests/unit/schema/on_one_processor.hpp"

#include <atomic>
#include <chrono>
#include <thread>

namespace vgpu::test {

namespace {

/// Lets all threads work, or none.
class gatekeeper final : public device::governor {
public:
  bool governs() const noexcept override { return true; }
  bool hurries() const noexcept override { return closed_.load(); }
  bool begin() override { return enter(!closed_.load()); }
  bool go_on(std::chrono::nanoseconds worked) override {
    charge(worked);
    auto may = !closed_.load();
    if (!may)
      leave();
    return may;
  }
  void end(std::chrono::nanoseconds worked) override {
    charge(worked);
    leave();
  }
  bool wait() override {
    auto lock = std::unique_lock{mutex_};
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !closed_.load() || released_; });
    --waiting_;
    working_ += released_ ? 0 : 1;
    return !released_;
  }
  void release() override {
    auto lock = std::lock_guard{mutex_};
    released_ = true;
    changed_.notify_all();
  }

  void close(bool x) {
    auto lock = std::lock_guard{mutex_};
    closed_ = x;
    changed_.notify_all();
  }
  /// Waits until a thread waits.
  void await_waiter() {
    auto lock = std::unique_lock{mutex_};
    changed_.wait(lock, [&] { return waiting_ != 0; });
  }
  /// Waits until no thread works. Returns the time charged to all threads.
  std::chrono::duration<double> charged() {
    auto lock = std::unique_lock{mutex_};
    changed_.wait(lock, [&] { return working_ == 0; });
    return charged_;
  }

private:
  bool enter(bool may) {
    auto lock = std::lock_guard{mutex_};
    working_ += may ? 1 : 0;
    return may;
  }
  void leave() {
    auto lock = std::lock_guard{mutex_};
    --working_;
    changed_.notify_all();
  }
  void charge(std::chrono::nanoseconds worked) {
    auto lock = std::lock_guard{mutex_};
    BOOST_TEST(worked.count() >= 0);
    charged_ += worked;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::chrono::nanoseconds charged_{0};
  std::atomic<bool> closed_ = false;
  bool released_ = false;
  int waiting_ = 0;
  int working_ = 0;
};

/// Returns all processor time of the calling thread.
std::chrono::duration<double> thread_time() {
  timespec x{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &x);
  return std::chrono::seconds{x.tv_sec} + std::chrono::nanoseconds{x.tv_nsec};
}

struct governed_device : device_fixture {
  static constexpr unsigned threads = 2;
  std::shared_ptr<gatekeeper> gate = std::make_shared<gatekeeper>();

  explicit governed_device(unsigned width = threads)
      : device_fixture{std::uint64_t{1} << 30, width} {
    dynamic_cast<device::governed&>(*dev).govern_by(gate);
    load(read_file(DEVICE_CODE "/kernels.ptx"));
  }
};

/// A device with one thread.
struct narrow_device : governed_device {
  narrow_device() : governed_device{1} {}

  /// Returns the shortest of 200 times from `work` until no thread works.
  std::chrono::nanoseconds shortest(const std::function<void()>& work) {
    auto out = std::chrono::nanoseconds::max();
    for (auto i = 0; i < 200; ++i) {
      auto from = std::chrono::steady_clock::now();
      work();
      BOOST_REQUIRE(synchronize() == CUDA_SUCCESS);
      gate->charged(); // no thread works
      out = std::min<std::chrono::nanoseconds>(
          out, std::chrono::steady_clock::now() - from);
    }
    return out;
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(governors, governed_device)

BOOST_AUTO_TEST_CASE(no_work_begins_before_the_governor_allows_it) {
  auto word = memory(4);
  gate->close(true);
  BOOST_REQUIRE(launch("set_flag", {1}, {1}, arguments{word, 3}).ok());
  gate->await_waiter();
  auto done = outcome{};
  dev->when_done(std::nullopt, done.tell());
  BOOST_TEST(!done.told());
  BOOST_TEST(*reinterpret_cast<int*>(word) == 0);
  gate->close(false);
  BOOST_TEST(done.wait() == CUDA_SUCCESS);
  BOOST_TEST(*reinterpret_cast<int*>(word) == 3);
}

BOOST_AUTO_TEST_CASE(small_copies_wait_too) {
  gate->close(true);
  auto word = upload(std::vector<int>{42});
  gate->await_waiter();
  BOOST_TEST(*reinterpret_cast<int*>(word) == 0);
  gate->close(false);
  BOOST_TEST(synchronize() == CUDA_SUCCESS);
  BOOST_TEST(*reinterpret_cast<int*>(word) == 42);
}

BOOST_AUTO_TEST_CASE(a_kernel_is_stopped_in_its_middle) {
  auto flag = memory(4);
  auto out = memory(4);
  BOOST_REQUIRE(launch("wait_for", {1}, {1}, arguments{flag, out}).ok());
  auto done = outcome{};
  dev->when_done(std::nullopt, done.tell());
  gate->close(true);
  gate->await_waiter(); // it has begun, or waits to begin
  std::atomic_ref{*reinterpret_cast<int*>(flag)} = 1;
  BOOST_TEST(!done.told());
  gate->close(false);
  BOOST_TEST(done.wait() == CUDA_SUCCESS);
}

BOOST_AUTO_TEST_CASE(a_device_can_end_while_its_threads_wait) {
  auto flag = memory(4);
  auto out = memory(4);
  BOOST_REQUIRE(launch("wait_for", {8}, {1}, arguments{flag, out}).ok());
  gate->close(true);
  upload(std::vector<int>{42});
  gate->await_waiter();
  dev.reset(); // returns
}

BOOST_AUTO_TEST_CASE(the_device_is_as_wide_as_its_affinity) {
  auto width = 0;
  on_one_processor([&] {
    width = device::cpu_properties({}).attributes.at(
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  }).join();
  BOOST_TEST(width == 1);
}

BOOST_AUTO_TEST_CASE(worked_time_is_a_part_of_the_whole_device) {
  auto& meter = dynamic_cast<device::meter&>(*dev);
  auto flag = memory(4);
  auto out = memory(4);
  BOOST_REQUIRE(launch("wait_for", {1}, {1}, arguments{flag, out}).ok());
  // The kernel runs long enough that the time of starting threads does not
  // matter.
  while (meter.busy() < std::chrono::milliseconds{5})
    std::this_thread::yield();
  std::atomic_ref{*reinterpret_cast<int*>(flag)} = 1;
  BOOST_REQUIRE(synchronize() == CUDA_SUCCESS);
  // One of two threads had work.
  BOOST_TEST(meter.worked().count() > 0);
  BOOST_TEST(meter.worked().count() <= meter.busy().count());
}

// If these differed, a share kept by one would look broken by the other.
BOOST_AUTO_TEST_CASE(charged_time_equals_worked_time) {
  auto& meter = dynamic_cast<device::meter&>(*dev);
  auto word = memory(4);
  auto round = [&] {
    for (int i = 0; i < 50; ++i)
      BOOST_REQUIRE(launch("set_flag", {1}, {1}, arguments{word, 3}).ok());
    BOOST_REQUIRE(synchronize() == CUDA_SUCCESS);
  };
  round(); // both threads have worked
  auto charged = gate->charged();
  auto worked = std::chrono::duration<double>{meter.worked()};
  // Between two of these kernels a thread has almost no rest.
  for (int i = 0; i < 200; ++i)
    round();
  charged = gate->charged() - charged;
  worked = meter.worked() - worked;
  // Only waking up is counted separately.
  BOOST_TEST(charged.count() > 0);
  if (!are_times_judged())
    return;
  BOOST_TEST(charged / (threads * worked) > 0.75);
  BOOST_TEST(charged / (threads * worked) < 1.05);
}

// It is the whole device. With more threads one would keep its place for 500
// us.
BOOST_FIXTURE_TEST_CASE(the_only_thread_does_not_keep_its_place_when_idle,
                        narrow_device) {
  auto word = memory(4);
  auto kernel = [&] {
    BOOST_REQUIRE(launch("set_flag", {1}, {1}, arguments{word, 3}).ok());
  };
  auto bytes = std::vector<char>(64 << 10);
  auto after_kernel = shortest(kernel);
  auto after_copy = shortest([&] { upload(bytes); });
  if (!are_times_judged())
    return;
  BOOST_TEST(after_kernel.count() < 500'000);
  BOOST_TEST(after_copy.count() < 500'000);
}

// The thread keeps its place and busy-polls for work.
BOOST_AUTO_TEST_CASE(busy_polling_is_not_charged) {
  constexpr auto times = 40;
  device::cpu::busy_time busy;
  busy.govern_by(gate);
  auto charged = gate->charged();
  auto from = thread_time();
  {
    device::cpu::busy_time::presence here{busy};
    BOOST_TEST(!here.busy_poll([] { return true; })); // not begun
    here.enter();
    for (auto i = 0; i < times; ++i) {
      here.rest(true);
      BOOST_TEST(!here.busy_poll([] { return false; }));
      here.enter();
    }
    here.rest(true);
    BOOST_TEST(here.busy_poll([] { return true; }));
    here.leave();
  }
  auto all = thread_time() - from;
  charged = gate->charged() - charged;
  BOOST_TEST(all.count() > 0);
  if (!are_times_judged())
    return;
  BOOST_TEST(charged.count() < all.count() / 2);
  BOOST_TEST(std::chrono::duration<double>{busy.worked()}.count() <
             all.count() / 2);
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace vgpu::test
