// Checkpoints a worker's process whose session cannot be described. At a
// helper's request the driver takes the process's device memory to the host,
// and later brings it back.
#pragma once

#include "actors/worker/checkpoint/helper.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace vgpu {

/// Runs one half of a process's checkpoint at a time, and reports its outcome.
/// Not thread-safe.
class gpu_release {
public:
  /// Begins each half with `begin`; if it is empty, a process cannot be
  /// checkpointed. `ring` is called, on any thread, when there is an outcome.
  gpu_release(begin_gpu_move begin, std::function<void()> ring)
      : begin_(std::move(begin)), ring_(std::move(ring)) {}

  bool is_possible() const noexcept { return static_cast<bool>(begin_); }
  /// Begins a release, and resets the count of failed restores.
  status release();
  /// Begins to bring the process back.
  status restore() { return begin(gpu_move::restore); }
  /// Returns the outcome once; nothing while it is under way, or where nothing
  /// was begun.
  std::optional<status> outcome();
  /// Counts a failed restore. Returns whether another try is worthwhile, since
  /// the helper may have been killed.
  bool may_try_again() noexcept;
  /// Returns how long the last half has taken so far.
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
