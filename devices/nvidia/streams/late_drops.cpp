#include "devices/nvidia/streams/late_drops.hpp"

#include <chrono>
#include <utility>

namespace vgpu::device::nvidia {

namespace {

/// Limits the wait for work that may itself wait for the program, which a
/// kernel can do.
constexpr std::chrono::seconds longest_wait{10};

} // namespace

void late_drops::add(std::function<void()> drop, CUresult so_far) {
  auto done = [this, drop = std::move(drop)](CUresult how) {
    std::lock_guard guard{lock_};
    --waiting_;
    changed_.notify_all();
    // Kernels may still run when the device is closed, so what they use stays.
    if (how == CUDA_ERROR_CONTEXT_IS_DESTROYED)
      return;
    if (program_has_turns())
      postponed_.push_back(drop);
    else
      drop();
  };
  {
    std::lock_guard guard{lock_};
    ++waiting_;
    drop_postponed();
  }
  streams_.when_all_done(so_far, done, completion_mode::cleanup);
}

void late_drops::finish() {
  std::unique_lock guard{lock_};
  changed_.wait_for(guard, longest_wait,
                    [&] { return waiting_ == 0 || program_has_turns(); });
  drop_postponed();
}

/// Tells whether a stream waits for the program. Precondition: the lock is
/// held.
bool late_drops::program_has_turns() const noexcept {
  return wait_begun_ || streams_.host_calls_pending();
}

/// Precondition: the lock is held.
void late_drops::drop_postponed() {
  if (program_has_turns())
    return;
  for (auto& drop : std::exchange(postponed_, {}))
    drop();
}

} // namespace vgpu::device::nvidia
