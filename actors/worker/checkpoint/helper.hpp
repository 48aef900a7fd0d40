// The work that a helper process does for a worker.
#pragma once

#include "schema/base/fault.hpp"

#include <functional>
#include <memory>
#include <optional>

namespace vgpu {

/// Is work under way in another process. Destroying it ends the work.
class helper {
public:
  helper() = default;
  helper(const helper&) = delete;
  helper& operator=(const helper&) = delete;
  virtual ~helper() = default;

  /// Returns the outcome, or nothing while the work is under way. Only the
  /// thread that began it may call this.
  virtual std::optional<status> outcome() = 0;
};

/// Names the two halves of a process's checkpoint: the driver takes its memory,
/// and all else that it keeps there, from its GPUs to the host, or brings it
/// back.
enum class gpu_move { release, restore };

/// Begins one half for this process. `ring` is called, on any thread, when
/// there is an outcome. Until the memory is back, every thread of this process
/// that calls the driver blocks. A release that is not possible, and has
/// changed nothing, fails as `unsupported`. After any other fault the process's
/// state is unknown. Then bring the memory back, which works even after a
/// helper died.
using begin_gpu_move = std::function<result<std::unique_ptr<helper>>(
    gpu_move what, std::function<void()> ring)>;

} // namespace vgpu
