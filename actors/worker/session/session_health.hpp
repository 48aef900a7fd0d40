// The errors in which a session's devices ended.
#pragma once

#include "actors/worker/session/answers.hpp"

#include <atomic>
#include <cstdint>
#include <functional>

namespace vgpu {

/// Tells an error of the program's own from a device that failed by itself.
/// Thread-safe.
class session_health {
public:
  /// Whether an error says that a device failed without the program's doing.
  static bool is_loss(CUresult result) noexcept {
    return result == CUDA_ERROR_DEVICE_UNAVAILABLE ||
           result == CUDA_ERROR_ECC_UNCORRECTABLE ||
           result == CUDA_ERROR_NVLINK_UNCORRECTABLE;
  }

  /// The first error of the program's own, or CUDA_SUCCESS.
  CUresult error() const noexcept {
    return static_cast<CUresult>(error_.load());
  }
  /// The error by which a device failed, or CUDA_SUCCESS.
  CUresult lost() const noexcept { return static_cast<CUresult>(lost_.load()); }

  /// Sets what is called once, by any thread, when a device fails. Call it
  /// before any note().
  void when_lost(std::function<void()> call) { when_lost_ = std::move(call); }

  /// Notes how something ended. Returns false where the program must not hear
  /// of it, because another worker takes the session up.
  bool note(answer_sink& sink, CUresult result) {
    std::uint32_t none = 0;
    auto code = static_cast<std::uint32_t>(result);
    if (is_loss(result)) {
      if (lost_.compare_exchange_strong(none, code))
        when_lost_();
      return false;
    }
    if (result != CUDA_SUCCESS && error_.compare_exchange_strong(none, code))
      sink.sticky(result);
    return lost_.load() == 0;
  }

private:
  std::atomic<std::uint32_t> error_{0};
  std::atomic<std::uint32_t> lost_{0};
  std::function<void()> when_lost_ = [] {};
};

} // namespace vgpu
