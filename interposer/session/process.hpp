// The one state of the program's process that C forces on us, and its life:
// before cuInit, running, in the child of a fork, at exit.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string_view>

namespace vgpu::interposer {

class session;

/// What the entry points may do now.
enum class phase : std::uint8_t {
  fresh,   ///< before cuInit
  running, ///< there is a session
  forked,  ///< in a child of fork: the session is the parent's
  ended,   ///< exit() is running
};

/// The process's state. It is made on first use and never destroyed, so that
/// calls from atexit handlers and other threads find it whole. All members are
/// thread-safe.
class process {
public:
  /// cuInit: makes the session the first time. CUDA_ERROR_NO_DEVICE when none
  /// can be had.
  static CUresult initialise() noexcept;

  /// Opens the session where there is none yet, and does nothing that a child
  /// of a fork could not do again for itself: for what is asked before cuInit.
  static CUresult open_session() noexcept;

  /// What an entry point must return instead of doing its work, or
  /// CUDA_SUCCESS.
  static CUresult phase_error() noexcept {
    auto now = phase_.load(std::memory_order_acquire);
    return now == phase::running ? CUDA_SUCCESS : code_of(now);
  }

  /// What every call returns once the session has failed, or CUDA_SUCCESS.
  /// Precondition: phase_error() is CUDA_SUCCESS.
  static CUresult session_error() noexcept;

  static phase now() noexcept { return phase_.load(std::memory_order_acquire); }

  /// Only while running (or later), or after open_session().
  static session& the_session() noexcept { return *session_; }

  /// Every device's work and memory as the driver reports it: 13.0.
  static constexpr int driver_version = 13000;

private:
  static CUresult code_of(phase x) noexcept;
  static CUresult open_locked();

  static std::atomic<phase> phase_;
  static session* session_;
};

/// process::the_session(), as most of the library calls it.
inline session& here() noexcept {
  return process::the_session();
}

/// How much is written to stderr, from VGPU_LOG: nothing when it is unset.
enum class log_level : std::uint8_t { off, error, warn, info, debug };

/// Whether messages of this level are written.
bool logs(log_level level) noexcept;

/// Writes one line to stderr if this level is on.
void log_line(log_level level, std::string_view text) noexcept;

/// Puts into the driver's log, and with VGPU_LOG=debug on stderr, which entry
/// point gave `code`; `body` is the __PRETTY_FUNCTION__ of a template over a
/// lambda of the entry point.
void note_failed_call(std::string_view body, CUresult code) noexcept;

/// Reports something that was thrown.
void report_exception(const char* what) noexcept;

/// Reports what was thrown inside an entry point; what that returns then: the
/// error that the session ended in, if it did.
CUresult code_of_exception(const std::exception& thrown) noexcept;

} // namespace vgpu::interposer
