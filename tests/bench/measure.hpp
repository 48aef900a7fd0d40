// How the benchmarks measure: each sample separately, so that they report
// medians and not means that include noise.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace vgpu::bench {

/// Holds the times of one benchmark's samples, in nanoseconds.
class samples {
public:
  using clock = std::chrono::steady_clock;

  void add(clock::duration time, double operations) {
    all_.push_back(std::chrono::duration<double, std::nano>{time}.count() /
                   operations);
  }

  /// Sets the counters p50_ns and p99_ns.
  void report(benchmark::State& state) {
    if (all_.empty())
      return;
    std::sort(all_.begin(), all_.end());
    auto at = [&](double part) {
      return all_[static_cast<std::size_t>(
          part * static_cast<double>(all_.size() - 1))];
    };
    state.counters["p50_ns"] = at(0.5);
    state.counters["p99_ns"] = at(0.99);
  }

private:
  std::vector<double> all_;
};

/// Runs `operation` in the benchmark's iterations. Each is one sample of
/// `operations` operations. `after` is not measured.
template <class Operation, class After>
void measure(benchmark::State& state, double operations, Operation operation,
             After after) {
  samples times;
  for ([[maybe_unused]] auto _ : state) {
    auto begin = samples::clock::now();
    operation();
    auto time = samples::clock::now() - begin;
    times.add(time, operations);
    state.SetIterationTime(std::chrono::duration<double>{time}.count());
    after();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(
      static_cast<double>(state.iterations()) * operations));
  times.report(state);
}

template <class Operation>
void measure(benchmark::State& state, Operation operation) {
  measure(state, 1, operation, [] {});
}

} // namespace vgpu::bench
