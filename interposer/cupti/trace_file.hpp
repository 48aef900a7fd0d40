// The file in which `vgpu trace` finds a program's activities.
#pragma once

#include "interposer/cupti/activity_log.hpp"
#include "schema/log/session_area.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include <sys/types.h>

namespace vgpu::interposer {

/// Writes activities to a file while the program runs, so that little is lost
/// where it ends by a signal. $VGPU_TRACE names a folder, in which each process
/// makes a file PID.trace of lines with columns between tabs:
///
///     vgpu-trace VERSION PID PROGRAM
///     KIND CORRELATION DEVICE CONTEXT STREAM THREAD CALLED RECEIVED SUBMITTED
///       REACHED BEGAN ENDED RESULT WAITS_FOR FROM TO BYTES GRID BLOCK SHARED
///       REGISTERS NAME
///     dropped COUNT
///
/// Thread-safe.
class trace_file final : public call_listener {
public:
  static constexpr unsigned version = 1;

  explicit trace_file(activity_log& of) : log_(of) {}

  /// Begins where the variable asks for it. Precondition: the session is in
  /// use. A fault is reported to VGPU_LOG.
  void begin_as_asked();

  void begins(activity&) noexcept override {}
  void ends(const activity& x) noexcept override;

  /// Writes what has come by now.
  void flush() noexcept;

private:
  activity_log& log_;
  std::mutex mutex_;
  unique_fd file_;
  ::pid_t of_ = 0;
  std::atomic<std::uint32_t> calls_{0};
};

} // namespace vgpu::interposer
