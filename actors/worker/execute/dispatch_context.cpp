#include "actors/worker/execute/dispatch_context.hpp"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

namespace vgpu {

bool dispatch_context::wait_for_device() {
  struct gate {
    std::mutex lock;
    std::condition_variable changed;
    bool open = false;
  };
  auto done = std::make_shared<gate>();
  device().when_done(std::nullopt, [done](CUresult) {
    std::lock_guard guard{done->lock};
    done->open = true;
    done->changed.notify_one();
  });
  std::unique_lock guard{done->lock};
  return done->changed.wait_for(guard, std::chrono::seconds{10},
                                [&] { return done->open; });
}

void dispatch_context::count_left() {
  if (session.broker) [[unlikely]]
    session.account.add_bytes(state().count_left(
        session.broker->left(static_cast<std::uint32_t>(slot.ordinal))));
}

} // namespace vgpu
