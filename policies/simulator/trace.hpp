// What a simulation is fed with: which vGPUs come when, and what they do.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/wire/specification.hpp"

#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

namespace vgpu::simulator {

/// After so much work, for so long without a call. Seconds.
struct idle_phase {
  double after = 0; // of run time since the phase before
  double lasts = 0;
};

/// A vGPU that is asked for, and its program.
struct arrival {
  double at = 0; // seconds since the trace's beginning
  /// Seconds that its program takes where nobody is in its way, without its
  /// idle phases.
  double runs = 0;
  /// What it uses of each of its pGPUs then, in (0, 1].
  double load = 1;
  std::string host{}; // where its program runs; empty: on none of the nodes
  std::vector<idle_phase> idle{};
  control::specification constraints{};
};

/// More make no trace: some gigabytes.
inline constexpr std::size_t most_arrivals = 5'000'000;

/// Reads a trace: a JSON object a line, as docs/using/simulator.md has it.
/// Lines that are empty, or begin with #, say nothing. In the order of arrival,
/// whatever the order of the lines. The fault begins with `name` and the number
/// of the line that is wrong. Lines and traces have a largest size.
result<std::vector<arrival>> read_trace(std::istream& from,
                                        const std::string& name);

/// Writes what read_trace() reads.
void write_trace(std::ostream& to, const std::vector<arrival>& all);

} // namespace vgpu::simulator
