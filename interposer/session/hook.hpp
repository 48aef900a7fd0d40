// Steps that a folder adds to the work of a folder below it, which so need not
// include it.
#pragma once

#include <atomic>
#include <cstdint>

namespace vgpu::interposer {

/// Runs one step that a folder above adds. The folder below owns the hook and
/// runs it; the folder above registers the step when the driver's state is
/// made, and arms the hook while it has something to do. Running a hook that is
/// not armed costs one load and a branch, and never takes a lock. Thread-safe
/// but for set().
class hook {
public:
  using step = void (*)();

  hook() = default;
  hook(const hook&) = delete;
  hook& operator=(const hook&) = delete;

  /// Registers the step. Precondition: no other thread knows the hook yet.
  void set(step x) noexcept { step_ = x; }

  /// Makes run() run the step until disarm() was called as often as arm().
  void arm() noexcept { armed_.fetch_add(1); }
  /// Reverses one arm().
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
