// How fast the cpu device executes: lane-instructions per second and core.
#include "devices/cpu/cpu_device.hpp"
#include "devices/cpu/probe.hpp"
#include "devices/interface/change_unit.hpp"

#include <benchmark/benchmark.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <mutex>
#include <stdexcept>
#include <vector>

namespace {

using namespace vgpu;

constexpr auto base = window_of(9);

void check(const status& x) {
  if (!x)
    throw std::runtime_error{x.why().what};
}

class bench_device {
public:
  explicit bench_device(unsigned threads,
                        std::uint64_t bytes = std::uint64_t{64} << 20)
      : dev{device::open_cpu_device({0, 2 * bytes, threads}, 2 * bytes)} {
    check(dev->reserve_window(base));
    check(dev->map(base, bytes));
    auto in = std::ifstream{DEVICE_CODE "/kernels.ptx", std::ios::binary};
    auto text = std::string{std::istreambuf_iterator<char>{in}, {}};
    auto got = dev->load_module({1}, std::as_bytes(std::span{text}));
    if (!got)
      throw std::runtime_error{got.why().what};
    info = *got;
  }

  template <class Args>
  void launch(std::string_view name, device::dim3 grid, device::dim3 block,
              const Args& args) {
    auto x = device::launch{};
    x.cluster = {0, 0, 0};
    x.module = {1};
    for (auto i = 0u; i < info.kernels.size(); ++i)
      if (info.kernels[i].name == name)
        x.kernel = i;
    x.grid = grid;
    x.block = block;
    x.parameters = std::as_bytes(std::span{&args, 1});
    check(dev->enqueue_launch(legacy_stream, x));
  }

  void wait() {
    auto mutex = std::mutex{};
    auto wake = std::condition_variable{};
    auto done = false;
    dev->when_done(std::nullopt, [&](CUresult) {
      auto lock = std::lock_guard{mutex};
      done = true;
      wake.notify_one();
    });
    auto lock = std::unique_lock{mutex};
    wake.wait(lock, [&] { return done; });
    if (dev->error() != CUDA_SUCCESS)
      throw std::runtime_error{"the kernel failed"};
  }

  std::unique_ptr<device::device> dev;
  device::module_info info;
};

void report(benchmark::State& state, bench_device& d, std::uint64_t before) {
  auto ran = device::executed_instructions(*d.dev) - before;
  state.counters["lane_instr/s/core"] = benchmark::Counter(
      double(ran) * 32 / double(state.range(0)), benchmark::Counter::kIsRate);
  state.SetLabel(std::string{device::executor_level()});
}

void matmul(benchmark::State& state) {
  auto d = bench_device{unsigned(state.range(0))};
  struct {
    std::uint64_t a, b, c;
    int n;
  } args{base, base + (8 << 20), base + (16 << 20), 512};
  auto before = device::executed_instructions(*d.dev);
  for (auto _ : state) {
    d.launch("matmul", {32, 32}, {16, 16}, args);
    d.wait();
  }
  report(state, d, before);
}
BENCHMARK(matmul)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);

void vector_add(benchmark::State& state) {
  auto d = bench_device{unsigned(state.range(0))};
  struct {
    std::uint64_t a, b, c;
    int n;
  } args{base, base + (8 << 20), base + (16 << 20), 1 << 20};
  auto before = device::executed_instructions(*d.dev);
  for (auto _ : state) {
    d.launch("vector_add", {4096}, {256}, args);
    d.wait();
  }
  report(state, d, before);
}
BENCHMARK(vector_add)->Arg(1)->UseRealTime()->Unit(benchmark::kMillisecond);

void divergent(benchmark::State& state) {
  auto d = bench_device{unsigned(state.range(0))};
  struct {
    std::uint64_t steps;
    int n;
  } args{base, 1 << 16};
  auto before = device::executed_instructions(*d.dev);
  for (auto _ : state) {
    d.launch("collatz", {256}, {256}, args);
    d.wait();
  }
  report(state, d, before);
}
BENCHMARK(divergent)->Arg(1)->UseRealTime()->Unit(benchmark::kMillisecond);

// Measures an empty kernel, from its launch to its completion.
void launch_and_wait(benchmark::State& state) {
  auto d = bench_device{1};
  auto x = 7;
  for (auto _ : state) {
    d.launch("claim", {1}, {1}, x);
    d.wait();
  }
}
BENCHMARK(launch_and_wait)->UseRealTime()->Unit(benchmark::kMicrosecond);

// Measures the cost of watching 4 GiB: a mark after all of it was written, or
// the first write to each granule after a mark.
void watching(benchmark::State& state, bool marks) {
  constexpr auto bytes = std::uint64_t{4} << 30;
  auto d = bench_device{1, bytes};
  auto& changes = dynamic_cast<device::change_unit&>(*d.dev);
  std::memset(reinterpret_cast<void*>(base), 1, bytes);
  for (auto _ : state) {
    auto began = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(changes.mark());
    auto marked = std::chrono::steady_clock::now();
    for (std::uint64_t at = 0; at < bytes; at += granule_bytes)
      *reinterpret_cast<volatile int*>(base + at) = 1;
    auto written = std::chrono::steady_clock::now();
    auto took = marks ? marked - began : written - marked;
    state.SetIterationTime(std::chrono::duration<double>{took}.count());
  }
}
BENCHMARK_CAPTURE(watching, mark, true)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(watching, first_writes, false)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

} // namespace

BENCHMARK_MAIN();
