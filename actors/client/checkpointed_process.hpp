// A worker process that the driver checkpointed in place of the session's
// state.
#pragma once

#include "actors/client/session_lease.hpp"
#include "actors/client/session_reports.hpp"
#include "actors/link/data_head.hpp"

#include <chrono>
#include <cstdint>

namespace vgpu {

/// Holds what the client knows of such a process, and reports it to the
/// manager. The worker still belongs to the session, in its epoch, and executes
/// nothing until it is ordered to resume.
///
/// It belongs to the session_client's thread. The session's phase says whether
/// the process is checkpointed or resuming.
class checkpointed_process {
public:
  /// Both must outlive the object.
  checkpointed_process(const session_lease& lease,
                       const session_reports& reports)
      : lease_(lease), reports_(reports) {}

  /// Records that the process was checkpointed, after the session stood still
  /// for `stood`.
  void begin(const data::checkpointed& stopped, std::chrono::nanoseconds stood);
  /// Records that the process was ordered to resume.
  void resume() noexcept { ordered_ = clock::now(); }
  /// Records that the process has resumed.
  void end();
  /// Returns the position of the session's next call, in bytes of the call log.
  std::uint64_t position() const noexcept { return position_; }

private:
  using clock = std::chrono::steady_clock;

  const session_lease& lease_;
  const session_reports& reports_;
  std::uint64_t bytes_ = 0; // of its GPUs' memory, now on the host
  std::uint64_t position_ = 0;
  clock::time_point ordered_{};
};

} // namespace vgpu
