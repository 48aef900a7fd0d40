// Steps that folders above add to what a folder below does, so that it need not
// include them.
#pragma once

#include <atomic>
#include <cstdint>

namespace vgpu::interposer {

/// One step that somebody above adds. The folder below owns the hook and runs
/// it, the folder above registers the step when the driver's state is made, and
/// arms the hook while it has something to do. Running a hook that is not armed
/// costs one load and a branch, and never takes a lock. Thread-safe but for
/// set().
class hook {
public:
  using step = void (*)();

  hook() = default;
  hook(const hook&) = delete;
  hook& operator=(const hook&) = delete;

  /// Registers the step. Precondition: no other thread knows the hook yet.
  void set(step x) noexcept { step_ = x; }

  /// Has the step run from now on. Each call needs a disarm() of its own.
  void arm() noexcept { armed_.fetch_add(1); }
  void disarm() noexcept { armed_.fetch_sub(1); }

  /// Runs the step if it is armed.
  void run() const {
    if (armed_.load(std::memory_order_acquire) != 0) [[unlikely]]
      step_();
  }

private:
  std::atomic<std::uint32_t> armed_{0};
  step step_ = nullptr;
};

} // namespace vgpu::interposer
