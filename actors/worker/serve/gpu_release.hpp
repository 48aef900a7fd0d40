// A worker whose session cannot be described, checkpointed as a process: its
// driver takes the process's memory to the host, for another process that asks
// it to, and brings it back.
#pragma once

#include "actors/worker/serve/helper.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace vgpu {

/// Has one half of a process's checkpoint done at a time, and tells how it
/// ended. One thread.
class gpu_release {
public:
  /// `begin` may be empty: then a process cannot be checkpointed. `ring` is
  /// called, by any thread, when something has ended.
  gpu_release(begin_gpu_move begin, std::function<void()> ring)
      : begin_(std::move(begin)), ring_(std::move(ring)) {}

  bool is_possible() const noexcept { return static_cast<bool>(begin_); }
  /// Begins a release, and forgets how often it took to come back.
  status release();
  /// Begins to bring the process back.
  status restore() { return begin(gpu_move::restore); }
  /// Returns how what was begun ended, once; nothing while it goes on, or where
  /// nothing was begun.
  std::optional<status> outcome();
  /// Counts a failure to come back. Returns whether it is worth another try,
  /// for somebody may have killed a helper.
  bool may_try_again() noexcept;
  /// How long what was begun last has taken.
  std::chrono::nanoseconds took() const { return clock::now() - begun_at_; }

private:
  using clock = std::chrono::steady_clock;

  status begin(gpu_move what);

  begin_gpu_move begin_;
  std::function<void()> ring_;
  std::unique_ptr<helper> helper_;
  clock::time_point begun_at_{};
  unsigned failures_ = 0;
};

} // namespace vgpu
