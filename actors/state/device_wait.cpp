#include "actors/state/device_wait.hpp"

#include "schema/base/cuda_fault.hpp"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

namespace vgpu {

status wait_for(device::device& on, const std::string& what,
                std::chrono::milliseconds patience,
                std::optional<stream_id> of) {
  struct gate {
    std::mutex lock;
    std::condition_variable changed;
    std::optional<CUresult> ended;
  };
  auto done = std::make_shared<gate>();
  on.when_done(of, [done](CUresult how) {
    std::lock_guard guard{done->lock};
    done->ended = how;
    done->changed.notify_one();
  });
  std::unique_lock guard{done->lock};
  if (!done->changed.wait_for(guard, patience,
                              [&] { return done->ended.has_value(); }))
    return cuda_fault(CUDA_ERROR_LAUNCH_TIMEOUT,
                      "the device does not finish " + what);
  if (*done->ended != CUDA_SUCCESS)
    return cuda_fault(*done->ended,
                      what + " ended in error " + std::to_string(*done->ended));
  return {};
}

} // namespace vgpu
