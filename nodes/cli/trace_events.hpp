// A program's trace as JSON that Perfetto and Chrome's trace viewer open.
#pragma once

#include "schema/base/fault.hpp"

#include <cstdint>
#include <istream>
#include <memory>
#include <ostream>
#include <string>

namespace vgpu::command {

/// Counts what a trace holds.
struct trace_summary {
  std::uint64_t processes = 0;
  std::uint64_t kernels = 0, copies = 0, memsets = 0, waits = 0, calls = 0;
  /// Counts activities that the program's libcuda had no room for.
  std::uint64_t dropped = 0;
};

/// Turns the files that interposer/cupti/trace_file.hpp describes into trace
/// events. Each thread of the program has a track with its calls, and each
/// stream one with its work. A piece of work before which the program's call
/// travelled to the worker, waited for the session's share of the device, or
/// waited for earlier work of its stream, has a span for each of these in the
/// category `waiting`.
class trace_events {
public:
  trace_events();
  ~trace_events();
  trace_events(const trace_events&) = delete;
  trace_events& operator=(const trace_events&) = delete;

  /// Adds the trace of one process. A last line without an end, as a killed
  /// program leaves it, is ignored. Fails where the text is no trace.
  vgpu::status add(std::istream& from);

  /// Writes everything, and returns what it was.
  trace_summary write(std::ostream& to) const;

private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

} // namespace vgpu::command
