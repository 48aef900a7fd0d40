// The process-wide state that the C interface requires, and its phases: before
// cuInit, running, in the child of a fork, at exit.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string_view>

namespace vgpu::interposer {

class session;

/// Says what the entry points may do.
enum class phase : std::uint8_t {
  fresh,   ///< The program has not called cuInit.
  running, ///< The process has a session.
  forked,  ///< The process is a fork's child; the parent has the session.
  ended,   ///< exit() is running.
};

/// Holds the process's state. The first use makes it and nothing destroys it,
/// so that calls from atexit handlers and other threads still find it. All
/// members are thread-safe.
class process {
public:
  /// Serves cuInit: opens the session at the first call. Returns
  /// CUDA_ERROR_NO_DEVICE when it gets no session.
  static CUresult initialise() noexcept;

  /// Opens the session where there is none yet, for queries before cuInit. The
  /// child of a fork can repeat all that it does.
  static CUresult open_session() noexcept;

  /// Returns the error by which an entry point must refuse its work, or
  /// CUDA_SUCCESS.
  static CUresult phase_error() noexcept {
    auto now = phase_.load(std::memory_order_acquire);
    return now == phase::running ? CUDA_SUCCESS : code_of(now);
  }

  /// Returns the error of a failed session, or CUDA_SUCCESS. Precondition:
  /// phase_error() is CUDA_SUCCESS.
  static CUresult session_error() noexcept;

  static phase now() noexcept { return phase_.load(std::memory_order_acquire); }

  /// Returns the session. Precondition: the phase is running or later, or
  /// open_session() succeeded.
  static session& the_session() noexcept { return *session_; }

  /// Holds the version of the driver API that cuDriverGetVersion returns: 13.0.
  static constexpr int driver_version = 13000;

private:
  static CUresult code_of(phase x) noexcept;
  static CUresult open_locked();

  static std::atomic<phase> phase_;
  static session* session_;
};

/// Returns process::the_session().
inline session& here() noexcept {
  return process::the_session();
}

/// Names a level of messages. VGPU_LOG sets the level up to which messages go
/// to stderr; the default is `off`.
enum class log_level : std::uint8_t { off, error, warn, info, debug };

/// Tells whether messages of this level are written.
bool logs(log_level level) noexcept;

/// Writes one line to stderr if this level is on.
void log_line(log_level level, std::string_view text) noexcept;

/// Notes in the driver's log, and with VGPU_LOG=debug on stderr, which entry
/// point returned `code`. `body` is the __PRETTY_FUNCTION__ of a template over
/// a lambda of the entry point.
void note_failed_call(std::string_view body, CUresult code) noexcept;

/// Returns the name of the entry point in such a __PRETTY_FUNCTION__, or
/// nothing where there is none.
std::string_view entry_point_of(std::string_view body) noexcept;

/// Reports the text of an exception.
void report_exception(const char* what) noexcept;

/// Reports an exception from inside an entry point, and returns the entry
/// point's result. Where the session has ended in an error, that error is the
/// result.
CUresult code_of_exception(const std::exception& thrown) noexcept;

} // namespace vgpu::interposer
