// The times that CUPTI gives to work of the nvidia device, by a fake CUPTI on
// the fake driver. A copy takes 20 us, and 3 us more for its events.
#include "devices/interface/trace_unit.hpp"
#include "devices/nvidia/profiler/gpu_activities.hpp"
#include "tests/unit/devices/nvidia/nvidia_fixture.hpp"

#include <filesystem>
#include <fstream>
#include <future>

using namespace vgpu;
using namespace vgpu::device;
using namespace vgpu::test;
using namespace std::chrono_literals;

namespace gpu_activities_test {

/// Counts of both libraries that are on while work is recorded.
constexpr unsigned kinds_and_calls =
    std::size(nvidia::activity::kinds) + std::size(nvidia::activity::calls);

/// Chooses the fake CUPTI. It must be gone before another one is chosen.
struct fake_cupti {
  fake_cupti() {
    choose(FAKE_CUPTI);
    call<void()>("fake_cupti_reset")();
  }
  ~fake_cupti() { ::unsetenv("VGPU_NVIDIA_CUPTI"); }

  static void choose(const char* path) {
    ::setenv("VGPU_NVIDIA_CUPTI", path, 1);
  }
  template <class F>
  static F* call(const char* name) {
    static auto* library = ::dlopen(FAKE_CUPTI, RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<F*>(::dlsym(library, name));
  }
  static void refuse(const char* function, int with) {
    call<void(const char*, int)>("fake_cupti_fail")(function, with);
  }
  static void busy(bool on) { call<void(int)>("fake_cupti_busy")(on); }
  static void lose(unsigned count) {
    call<void(unsigned)>("fake_cupti_lose")(count);
  }
  static void hand_over() { call<void()>("fake_cupti_hand_over")(); }
  static unsigned enabled() { return call<unsigned()>("fake_cupti_enabled")(); }
};

/// A span of traced work. That it is told twice would be an exception.
struct told_work {
  std::promise<work_span::times> promise;
  std::future<work_span::times> times = promise.get_future();
  std::shared_ptr<work_span> span = std::make_shared<work_span>(
      [this](const work_span::times& x) { promise.set_value(x); });

  bool is_told() const {
    return times.wait_for(0s) == std::future_status::ready;
  }
  std::chrono::nanoseconds length() {
    auto x = times.get();
    return x.ended - x.began;
  }
};

struct recorded_nvidia : fake_cupti, with_device {
  recorded_nvidia() {
    fake::call<void(std::uint64_t)>("fake_copies_take")(20'000);
    fake::call<void(std::uint64_t)>("fake_starts_take")(3'000);
    fake::call<void(const void*)>("fake_profile")(
        fake_cupti::call<const void*()>("fake_cupti_hooks")());
    BOOST_REQUIRE(dev->map(base, g).ok());
    BOOST_REQUIRE(dev->create_stream(one, true, 0).ok());
  }
  ~recorded_nvidia() {
    hold(0);
    dev.reset();
    BOOST_TEST(enabled() == 0u);
    fake::call<void(const void*)>("fake_profile")(nullptr);
  }

  void copy(told_work& as, stream_id in, unsigned times = 1) {
    auto address = [](const std::byte* x) {
      return reinterpret_cast<std::uintptr_t>(x);
    };
    unit.trace(as.span);
    for (auto i = 0u; i < times; ++i)
      BOOST_REQUIRE(
          dev->enqueue_copy(in, {address(there)}, {address(here)}, {64}).ok());
    unit.trace(nullptr);
    as.span->close();
  }
  void finish(std::optional<stream_id> in = std::nullopt) {
    outcome done;
    dev->when_done(in, done.tell());
    BOOST_REQUIRE(done.wait() == CUDA_SUCCESS);
  }

  static constexpr stream_id one{81};
  trace_unit& unit = dynamic_cast<trace_unit&>(*dev);
  std::byte here[64]{}, there[64]{};
};

bool is_exact(std::chrono::nanoseconds x) {
  return x == 20us;
}
bool is_by_events(std::chrono::nanoseconds x) {
  return std::chrono::abs(x - 23us) < 200ns;
}

} // namespace gpu_activities_test

using namespace gpu_activities_test;

BOOST_FIXTURE_TEST_SUITE(gpu_activities_of_cupti, recorded_nvidia)

BOOST_AUTO_TEST_CASE(work_has_cuptis_times) {
  BOOST_REQUIRE(unit.record(true).ok());
  BOOST_TEST(enabled() == kinds_and_calls);
  told_work first, second;
  copy(first, one);
  copy(second, one);
  finish();
  auto a = first.times.get();
  auto b = second.times.get();
  BOOST_TEST(is_exact(a.ended - a.began));
  BOOST_TEST(is_exact(b.ended - b.began));
  BOOST_TEST((b.began - a.began == 23us));
}

BOOST_AUTO_TEST_CASE(the_pieces_of_a_span_count_from_first_to_last) {
  BOOST_REQUIRE(unit.record(true).ok());
  told_work both;
  copy(both, one, 2);
  finish();
  BOOST_TEST((both.length() == 43us));
}

BOOST_AUTO_TEST_CASE(records_fill_several_buffers) {
  BOOST_REQUIRE(unit.record(true).ok());
  std::vector<told_work> all(3000);
  for (auto& x : all)
    copy(x, one);
  finish();
  BOOST_TEST(
      std::ranges::all_of(all, [](auto& x) { return is_exact(x.length()); }));
}

/// The driver refuses an attribute, and the device launches without it.
BOOST_AUTO_TEST_CASE(a_call_that_is_refused_has_no_record) {
  BOOST_REQUIRE(unit.record(true).ok());
  std::string_view image = "delay with a kernel";
  BOOST_REQUIRE(
      dev->load_module(module_id{1}, std::as_bytes(std::span{image})).ok());
  launch_hint priority;
  priority.attribute = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  launch what{.module = module_id{1},
              .grid = {},
              .block = {},
              .cluster = {1, 1, 1},
              .parameters = {},
              .hints = {&priority, 1}};
  told_work x;
  unit.trace(x.span);
  BOOST_REQUIRE(dev->enqueue_launch(one, what).ok());
  unit.trace(nullptr);
  x.span->close();
  finish();
  BOOST_TEST((x.length() == 0us)); // 3 us by events
}

// -- records that do not come ------------------------------------------------

BOOST_AUTO_TEST_CASE(lost_records_are_replaced_by_events) {
  BOOST_REQUIRE(unit.record(true).ok());
  lose(1);
  told_work first, second;
  copy(first, one);
  copy(second, one);
  finish();
  BOOST_TEST(is_by_events(first.length()));
  BOOST_TEST(is_exact(second.length()));
}

BOOST_AUTO_TEST_CASE(records_without_times_are_replaced_by_events) {
  BOOST_REQUIRE(unit.record(true).ok());
  fake_cupti::call<void(unsigned)>("fake_cupti_untime")(1);
  told_work x;
  copy(x, one);
  finish();
  BOOST_TEST(is_by_events(x.length()));
}

/// CUPTI keeps a buffer in which another record is incomplete. Where all work
/// is done it gives that too.
BOOST_AUTO_TEST_CASE(held_records_come_when_all_work_is_done) {
  BOOST_REQUIRE(unit.record(true).ok());
  busy(true);
  told_work x;
  copy(x, one);
  finish();
  BOOST_TEST(is_exact(x.length()));
}

BOOST_AUTO_TEST_CASE(records_come_late_from_another_thread) {
  BOOST_REQUIRE(unit.record(true).ok());
  busy(true);
  told_work under_way, x;
  hold(1);
  copy(under_way, legacy_stream);
  copy(x, one);
  finish(one);
  BOOST_TEST(!x.is_told());
  hand_over();
  BOOST_TEST(is_exact(x.length()));
  BOOST_TEST(!under_way.is_told());
  hold(0);
  finish();
  BOOST_TEST(is_exact(under_way.length()));
}

BOOST_AUTO_TEST_CASE(overdue_records_are_replaced_by_events) {
  BOOST_REQUIRE(unit.record(true).ok());
  busy(true);
  told_work under_way, x;
  hold(1);
  copy(under_way, legacy_stream);
  copy(x, one);
  finish(one);
  BOOST_TEST(!x.is_told());
  // The thread that learned of the copy's end may ask for its record later than
  // this one, which then is the first to miss it.
  auto later = nvidia::gpu_activities::clock::now();
  while (!x.is_told())
    nvidia::gpu_activities::instance().collect(later += 1h);
  BOOST_TEST(is_by_events(x.length()));
  hand_over(); // would tell it twice
  hold(0);
  finish();
}

// -- on and off ---------------------------------------------------------------

BOOST_AUTO_TEST_CASE(work_that_is_under_way_is_recorded_to_its_end) {
  BOOST_REQUIRE(unit.record(true).ok());
  told_work x, later;
  hold(1);
  copy(x, legacy_stream);
  BOOST_REQUIRE(unit.record(false).ok());
  BOOST_TEST(enabled() == std::size(nvidia::activity::kinds));
  copy(later, legacy_stream);
  hold(0);
  finish();
  BOOST_TEST(is_exact(x.length()));
  BOOST_TEST(is_by_events(later.length()));
}

BOOST_AUTO_TEST_CASE(recording_begins_again) {
  BOOST_REQUIRE(unit.record(true).ok());
  BOOST_REQUIRE(unit.record(true).ok());
  BOOST_REQUIRE(unit.record(false).ok());
  BOOST_TEST(enabled() == 0u);
  BOOST_REQUIRE(unit.record(true).ok());
  told_work x;
  copy(x, one);
  finish();
  BOOST_TEST(is_exact(x.length()));
}

BOOST_AUTO_TEST_CASE(cupti_that_refuses_is_replaced_by_events) {
  for (const auto* function : {"cuptiSubscribe", "cuptiActivityEnable"}) {
    refuse(function, 39);
    auto ok = unit.record(true);
    BOOST_REQUIRE(!ok.ok());
    BOOST_TEST(ok.why().what.find(std::string{function} + " returned 39") !=
               std::string::npos);
    BOOST_TEST(enabled() == 0u);
    told_work x;
    copy(x, one);
    finish();
    BOOST_TEST(is_by_events(x.length()));
    refuse(function, 0);
  }
  BOOST_TEST(unit.record(true).ok());
}

BOOST_AUTO_TEST_CASE(where_there_is_no_cupti_events_count) {
  for (const auto* chosen :
       {"off", "libcupti.so.13", "/there/is/no/libcupti.so.13", FAKE_DRIVER}) {
    choose(chosen);
    BOOST_TEST(!unit.record(true).ok());
    BOOST_TEST(enabled() == 0u);
    told_work x;
    copy(x, one);
    finish();
    BOOST_TEST(is_by_events(x.length()));
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(cupti_libraries)

BOOST_AUTO_TEST_CASE(the_drivers_own_version_is_preferred) {
  namespace fs = std::filesystem;
  auto folder =
      fs::temp_directory_path() / ("vgpu-cupti-" + std::to_string(::getpid()));
  fs::create_directory(folder);
  for (const auto* x : {"libcupti.so.12", "libcupti.so.13"})
    std::ofstream{folder / x};
  ::setenv("LD_LIBRARY_PATH", folder.c_str(), 1);
  auto here = [&](int version) {
    std::vector<std::string> out;
    for (auto& x : nvidia::cupti_places(version))
      if (fs::path{x}.parent_path() == folder)
        out.push_back(fs::path{x}.filename());
    return out;
  };
  BOOST_TEST((here(13000) ==
              std::vector<std::string>{"libcupti.so.13", "libcupti.so.12"}));
  BOOST_TEST((here(12080) ==
              std::vector<std::string>{"libcupti.so.12", "libcupti.so.13"}));
  ::unsetenv("LD_LIBRARY_PATH");
  fs::remove_all(folder);
}

BOOST_AUTO_TEST_SUITE_END()
