// The errors with which a session's devices failed.
#pragma once

#include "actors/worker/session/answers.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

namespace vgpu {

/// Distinguishes an error of the program's own from a device that failed by
/// itself. Thread-safe.
class session_health {
public:
  /// Returns whether an error says that a device failed without the program's
  /// fault.
  static bool is_loss(CUresult result) noexcept {
    return result == CUDA_ERROR_DEVICE_UNAVAILABLE ||
           result == CUDA_ERROR_ECC_UNCORRECTABLE ||
           result == CUDA_ERROR_NVLINK_UNCORRECTABLE;
  }

  /// Returns the first error of the program's own, or CUDA_SUCCESS.
  CUresult error() const noexcept {
    return static_cast<CUresult>(error_.load());
  }
  /// Returns the error with which a device failed, or CUDA_SUCCESS.
  CUresult lost() const noexcept { return static_cast<CUresult>(lost_.load()); }
  /// Says how a device was lost. Precondition: lost() is an error.
  std::string loss() {
    std::lock_guard guard{lock_};
    return unlike_.empty()
               ? "its device is lost, error " + std::to_string(lost_.load())
               : unlike_;
  }
  /// Gives the session up here, as if a device had failed: what the program has
  /// cannot be had again on these devices. `why` is the first reason.
  void cannot_be_like(const std::string& why) {
    {
      std::lock_guard guard{lock_};
      if (unlike_.empty())
        unlike_ = "it cannot be like the worker before it: " + why;
    }
    lose(CUDA_ERROR_DEVICE_UNAVAILABLE);
  }

  /// Sets the function to call when a device fails, once and on any thread.
  /// Call it before any note().
  void when_lost(std::function<void()> call) { when_lost_ = std::move(call); }

  /// Records the outcome of work. Returns false where the program must not get
  /// it, because another worker recovers the session.
  bool note(answer_sink& sink, CUresult result) {
    if (is_loss(result))
      lose(result);
    // What fails after a loss may fail because of it.
    if (lost_.load() != 0)
      return false;
    std::uint32_t none = 0;
    auto code = static_cast<std::uint32_t>(result);
    if (result != CUDA_SUCCESS && error_.compare_exchange_strong(none, code))
      sink.sticky(result);
    return true;
  }

  /// Records that a call was refused after the program had gone on. The
  /// session goes on too, and the program's next wait returns the error, once.
  void note_late(CUresult result) noexcept {
    late_.store(static_cast<std::uint32_t>(result));
  }
  /// Returns the error of note_late() for a wait that is otherwise successful,
  /// or CUDA_SUCCESS.
  CUresult take_late() noexcept {
    return late_.load(std::memory_order_relaxed) == 0
               ? CUDA_SUCCESS
               : static_cast<CUresult>(late_.exchange(0));
  }

private:
  void lose(CUresult result) {
    std::uint32_t none = 0;
    if (lost_.compare_exchange_strong(none, static_cast<std::uint32_t>(result)))
      when_lost_();
  }

  std::mutex lock_;
  std::string unlike_;
  std::atomic<std::uint32_t> error_{0};
  std::atomic<std::uint32_t> lost_{0};
  std::atomic<std::uint32_t> late_{0};
  std::function<void()> when_lost_ = [] {};
};

} // namespace vgpu
