// The cpu device tells when it executes traced work.
#include "devices/interface/trace_unit.hpp"
#include "tests/unit/devices/cpu/device_fixture.hpp"

#include <optional>

namespace vgpu::test {

namespace {

using device::work_span;

/// A span whose report a test looks at.
struct traced_work {
  std::shared_ptr<work_span> span =
      std::make_shared<work_span>([this](const work_span::times& x) {
        auto lock = std::lock_guard{mutex};
        ++reports;
        told = x;
      });
  std::mutex mutex;
  int reports = 0;
  work_span::times told;
};

constexpr auto traced_stream = stream_id{31};

struct traced_device : device_fixture {
  traced_device() {
    load(read_file(DEVICE_CODE "/kernels.ptx"));
    BOOST_REQUIRE(dev->create_stream(traced_stream, true, 0).ok());
    flag = memory(4);
    out = memory(4);
  }
  void set(int x) {
    BOOST_REQUIRE(
        launch("set_flag", {1}, {1}, arguments{out, x}, 0, traced_stream).ok());
  }
  void finish() {
    auto done = outcome{};
    dev->when_done(std::nullopt, done.tell());
    BOOST_REQUIRE(done.wait() == CUDA_SUCCESS);
  }

  device::trace_unit& unit = dynamic_cast<device::trace_unit&>(*dev);
  device_address flag = 0, out = 0;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(cpu_trace, traced_device)

BOOST_AUTO_TEST_CASE(each_kind_of_work_is_told_before_its_end_is) {
  auto before = work_span::clock::now();
  traced_work kernel, write, fill, read;
  unit.trace(kernel.span);
  set(3);
  unit.trace(write.span);
  auto bytes = std::make_shared<std::vector<int>>(1, 5);
  BOOST_REQUIRE(dev->enqueue_write(traced_stream, out,
                                   std::as_bytes(std::span{*bytes}), bytes)
                    .ok());
  unit.trace(fill.span);
  BOOST_REQUIRE(dev->enqueue_fill(traced_stream, {out}, 1, 4, {1}).ok());
  unit.trace(read.span);
  int got = 0;
  auto done = outcome{};
  BOOST_REQUIRE(dev->enqueue_read(traced_stream,
                                  std::as_writable_bytes(std::span{&got, 1}),
                                  out, done.tell())
                    .ok());
  unit.trace(nullptr);
  for (auto* x : {&kernel, &write, &fill, &read})
    x->span->close();
  BOOST_REQUIRE(done.wait() == CUDA_SUCCESS);
  auto after = work_span::clock::now();
  auto earlier = before;
  for (auto* x : {&kernel, &write, &fill, &read}) {
    auto lock = std::lock_guard{x->mutex};
    BOOST_TEST(x->reports == 1);
    BOOST_CHECK(x->told.reached >= earlier);
    BOOST_CHECK(x->told.began >= x->told.reached);
    BOOST_CHECK(x->told.ended >= x->told.began);
    BOOST_CHECK(x->told.ended <= after);
    earlier = x->told.ended;
  }
}

BOOST_AUTO_TEST_CASE(a_span_is_told_once_when_its_last_piece_is_done) {
  traced_work both;
  unit.trace(both.span);
  BOOST_REQUIRE(
      launch("wait_for", {1}, {1}, arguments{flag, out}, 0, traced_stream)
          .ok());
  set(1);
  unit.trace(nullptr);
  both.span->close();
  {
    auto lock = std::lock_guard{both.mutex};
    BOOST_TEST(both.reports == 0);
  }
  BOOST_REQUIRE(
      launch("set_flag", {1}, {1}, arguments{flag, 1}, 0, legacy_stream).ok());
  finish();
  auto lock = std::lock_guard{both.mutex};
  BOOST_TEST(both.reports == 1);
}

BOOST_AUTO_TEST_CASE(work_after_the_trace_is_not_told) {
  traced_work nothing;
  unit.trace(nothing.span);
  unit.trace(nullptr);
  set(1);
  finish();
  nothing.span->close();
  BOOST_TEST(nothing.reports == 0);
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace vgpu::test
