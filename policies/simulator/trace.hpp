// The input of a simulation: when vGPUs arrive, and what they do.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/wire/specification.hpp"

#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

namespace vgpu::simulator {

/// Describes a phase without calls after an amount of work. In seconds.
struct idle_phase {
  /// Is the run time since the previous phase.
  double after = 0;
  double lasts = 0;
};

/// Describes a request for a vGPU, and its program.
struct arrival {
  /// Is the time since the trace's beginning, in seconds.
  double at = 0;
  /// Holds the seconds that its program takes alone, without idle phases.
  double runs = 0;
  /// Holds the load on each of its pGPUs when it is alone, in (0, 1].
  double load = 1;
  /// Names the program's host. Empty: it is none of the nodes.
  std::string host{};
  std::vector<idle_phase> idle{};
  control::specification constraints{};
};

/// Gives the largest number of arrivals in a trace, which takes some gigabytes.
inline constexpr std::size_t most_arrivals = 5'000'000;

/// Reads a trace: one JSON object per line, as docs/using/simulator.md
/// describes. Empty lines and lines that begin with # are ignored. Returns the
/// arrivals in order of time, whatever the order of the lines. A fault begins
/// with `name` and the number of the wrong line. The sizes of lines and traces
/// are limited.
result<std::vector<arrival>> read_trace(std::istream& from,
                                        const std::string& name);

/// Writes a trace that read_trace() can read.
void write_trace(std::ostream& to, const std::vector<arrival>& all);

} // namespace vgpu::simulator
