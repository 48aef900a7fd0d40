// Examines calls before their turn.
#pragma once

#include "actors/worker/execute/executor.hpp"
#include "actors/worker/serve/forwarded_source.hpp"
#include "actors/worker/serve/mapped_source.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vgpu {

/// Shows later calls to the executor while it executes a long one, or may not
/// execute the next one, because some of them may end what that one waits for.
/// It shows each call once. The
/// heartbeat thread uses it during a call, and the server's thread otherwise.
/// Of the executor it uses only look_ahead().
class calls_ahead {
public:
  explicit calls_ahead(executor& exec) : exec_(exec) {}

  /// Examines the log after the position that was read.
  void look(const mapped_source::mapped_log& log);
  /// Examines the forwarded calls from `position` on, without the call there
  /// where it is the one that is being executed.
  void look(const forwarded_source& calls, std::uint64_t position,
            bool executes_first);

private:
  bool look(forwarded_source::range calls, std::uint64_t& position,
            std::uint64_t first);

  executor& exec_;
  std::uint64_t seen_until_ = 0;
  std::vector<std::uint64_t> scratch_; // one call
};

} // namespace vgpu
