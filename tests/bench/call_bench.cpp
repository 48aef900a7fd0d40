// Measures the cost of driver calls for a program on a vGPU.
#include "bench_program.hpp"
#include "counted.hpp"
#include "first_call.hpp"
#include "measure.hpp"

#include <cstdint>
#include <cstring>
#include <iostream>
#include <vector>

namespace vgpu::bench {

namespace {

/// Gives the launches per sample. The log is drained between two samples.
constexpr int batch = 1000;

/// Runs `body`, and reports an exception as the benchmark's error.
template <class Body>
void guarded(benchmark::State& state, const Body& body) {
  try {
    body(program::instance());
  } catch (const std::exception& x) {
    state.SkipWithError(x.what());
  }
}

void launch(benchmark::State& state) {
  guarded(state, [&](const program& p) {
    auto before = counts_now();
    counts spent;
    measure(
        state, batch,
        [&] {
          before = counts_now();
          for (int i = 0; i < batch; ++i)
            p.launch();
          spent += counts_now() - before;
        },
        [&] { p.synchronise(); });
    auto calls = static_cast<double>(state.iterations()) * batch;
    state.counters["allocations"] =
        static_cast<double>(spent.allocations) / calls;
    state.counters["locks"] = static_cast<double>(spent.locks) / calls;
    state.counters["page_faults"] = static_cast<double>(spent.faults) / calls;
    state.counters["cpu_ns"] = static_cast<double>(spent.cpu_ns) / calls;
  });
}
BENCHMARK(launch)->UseManualTime()->Iterations(200)->Unit(
    benchmark::kMicrosecond);

void synchronise(benchmark::State& state) {
  guarded(state, [&](const program& p) {
    measure(state, [&] {
      p.leave_something_pending();
      p.synchronise();
    });
  });
}
BENCHMARK(synchronise)->UseManualTime()->Unit(benchmark::kMicrosecond);

void read_4_bytes(benchmark::State& state) {
  guarded(state, [&](const program& p) {
    std::uint32_t value = 0;
    measure(state, [&] {
      check(::cuMemcpyDtoH(&value, p.memory(), sizeof(value)), "cuMemcpyDtoH");
    });
  });
}
BENCHMARK(read_4_bytes)->UseManualTime()->Unit(benchmark::kMicrosecond);

void launch_and_synchronise(benchmark::State& state) {
  guarded(state, [&](const program& p) {
    measure(state, [&] {
      p.launch();
      p.synchronise();
    });
  });
}
BENCHMARK(launch_and_synchronise)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

/// Owns host memory, pinned or pageable.
class host_memory {
public:
  host_memory(bool pinned, std::size_t bytes) : pinned_(pinned) {
    if (pinned)
      check(::cuMemAllocHost(&at_, bytes), "cuMemAllocHost");
    else
      pageable_.resize(bytes);
    std::memset(data(), 1, bytes);
  }
  host_memory(const host_memory&) = delete;
  host_memory& operator=(const host_memory&) = delete;
  ~host_memory() {
    if (pinned_)
      ::cuMemFreeHost(at_);
  }
  void* data() noexcept { return pinned_ ? at_ : pageable_.data(); }

private:
  bool pinned_;
  void* at_ = nullptr;
  std::vector<std::byte> pageable_;
};

template <class Copy>
void copy(benchmark::State& state, bool pinned, const Copy& transfer) {
  guarded(state, [&](const program& p) {
    host_memory host{pinned, program::memory_bytes};
    measure(state, [&] {
      transfer(p.memory(), host.data(), program::memory_bytes);
      p.synchronise();
    });
    state.SetBytesProcessed(state.iterations() *
                            static_cast<std::int64_t>(program::memory_bytes));
  });
}

void copy_to_device(benchmark::State& state, bool pinned) {
  copy(state, pinned, [](CUdeviceptr device, void* host, std::size_t bytes) {
    check(::cuMemcpyHtoD(device, host, bytes), "cuMemcpyHtoD");
  });
}

void copy_to_host(benchmark::State& state, bool pinned) {
  copy(state, pinned, [](CUdeviceptr device, void* host, std::size_t bytes) {
    check(::cuMemcpyDtoH(host, device, bytes), "cuMemcpyDtoH");
  });
}

// The iterations are few, because bytes copied to the device stay in the
// journal.
#define VGPU_COPY_BENCHMARK(function, kind, pinned)                            \
  BENCHMARK_CAPTURE(function, kind, pinned)                                    \
      ->UseManualTime()                                                        \
      ->Iterations(4)                                                          \
      ->Unit(benchmark::kMillisecond)
VGPU_COPY_BENCHMARK(copy_to_device, pageable, false);
VGPU_COPY_BENCHMARK(copy_to_device, pinned, true);
VGPU_COPY_BENCHMARK(copy_to_host, pageable, false);
VGPU_COPY_BENCHMARK(copy_to_host, pinned, true);

} // namespace

int print_first_call() {
  try {
    auto begin = samples::clock::now();
    program::instance();
    std::chrono::duration<double, std::milli> time =
        samples::clock::now() - begin;
    std::cout << time.count() << '\n';
    return 0;
  } catch (const std::exception& x) {
    std::cerr << "vgpu_bench: " << x.what() << '\n';
    return 1;
  }
}

} // namespace vgpu::bench
