// A worker process that was checkpointed as it is, in place of its session's
// state.
#pragma once

#include "actors/client/session_lease.hpp"
#include "actors/client/session_reports.hpp"
#include "actors/link/data_head.hpp"

#include <chrono>
#include <cstdint>

namespace vgpu {

/// What the client knows of such a process, and tells the manager of it. The
/// worker stays the session's, in its epoch, and executes nothing before it is
/// ordered to resume.
///
/// It touches nothing, and belongs to the session_client's thread. Whether the
/// process is checkpointed or resuming is the session's phase.
class checkpointed_process {
public:
  /// Both must outlive the object.
  checkpointed_process(const session_lease& lease,
                       const session_reports& reports)
      : lease_(lease), reports_(reports) {}

  /// The process was checkpointed; the session has stood still for `stood`.
  void begin(const data::checkpointed& stopped, std::chrono::nanoseconds stood);
  /// The process is ordered to resume.
  void resume() noexcept { ordered_ = clock::now(); }
  /// The process has resumed.
  void end();
  /// The next call of the session, in bytes of the call log.
  std::uint64_t position() const noexcept { return position_; }

private:
  using clock = std::chrono::steady_clock;

  const session_lease& lease_;
  const session_reports& reports_;
  std::uint64_t bytes_ = 0; // that it has on the host in place of its GPUs
  std::uint64_t position_ = 0;
  clock::time_point ordered_{};
};

} // namespace vgpu
