// What a worker has another process do for it.
#pragma once

#include "schema/base/fault.hpp"

#include <functional>
#include <memory>
#include <optional>

namespace vgpu {

/// Something that is under way in another process, which ends with this.
class helper {
public:
  helper() = default;
  helper(const helper&) = delete;
  helper& operator=(const helper&) = delete;
  virtual ~helper() = default;

  /// Returns how it ended, or nothing while it goes on. Called by the thread
  /// that began it.
  virtual std::optional<status> outcome() = 0;
};

/// The two halves of a process's own checkpoint: its memory on its GPUs, with
/// all else that the driver has of it there, is released from them and taken to
/// the host, or is brought back.
enum class gpu_move { release, restore };

/// Begins one half for the process that asks. `ring` is called, from any
/// thread, when there is an outcome. While it goes on, and until the memory was
/// brought back, whoever of this process calls the driver waits. A release that
/// is not possible, and has changed nothing, is refused as `unsupported`.
/// After any other fault nobody knows what was done, and the memory has to be
/// brought back, which works from whatever a helper left that died.
using begin_gpu_move = std::function<result<std::unique_ptr<helper>>(
    gpu_move what, std::function<void()> ring)>;

} // namespace vgpu
