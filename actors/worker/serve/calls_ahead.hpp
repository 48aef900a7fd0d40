// A look at the calls that lie behind the one that is executed.
#pragma once

#include "actors/worker/execute/executor.hpp"
#include "actors/worker/serve/forwarded_source.hpp"
#include "actors/worker/serve/mapped_source.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vgpu {

/// Shows the executor the calls that lie ahead while it executes one that takes
/// long, because some of them may end what that one waits for. It shows each
/// call once. The heartbeat thread alone uses it; of the executor it touches
/// nothing but look_ahead().
class calls_ahead {
public:
  explicit calls_ahead(executor& exec) : exec_(exec) {}

  /// Looks at the log behind where it was read.
  void look(const mapped_source::mapped_log& log);
  /// Looks at what was forwarded, behind the call at `position`.
  void look(const forwarded_source& calls, std::uint64_t position);

private:
  bool look(std::span<const std::byte> bytes, std::uint64_t& position,
            std::uint64_t executed);

  executor& exec_;
  std::uint64_t seen_until_ = 0;
  std::vector<std::uint64_t> scratch_; // one call
};

} // namespace vgpu
