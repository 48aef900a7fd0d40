// Compares the results of a replay with those that the program got before.
#pragma once

#include "schema/base/ids.hpp"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace vgpu {

/// Holds a result that the program got: its digest and, of a short one, its
/// bytes (kept_result_bytes).
struct earlier_result {
  std::uint32_t digest = 0;
  std::vector<std::byte> bytes;
};

/// Holds the calls whose results differ in a replay, since this worker began.
struct replay_differences {
  std::vector<std::uint64_t> calls; // call numbers, the first few
  std::uint64_t total = 0;
  /// Says how the first short result differs; empty where none is short.
  std::string first;
};

/// Compares results, and collects the differences. Thread-safe.
class replay_checks {
public:
  /// Returns room for bytes that are read to be compared, which is freed when
  /// it is dropped. Waits while more than a limit is in use. Returns null when
  /// that lasts too long because a device hangs.
  static std::shared_ptr<std::byte[]> take(std::shared_ptr<replay_checks> self,
                                           std::uint64_t bytes);

  /// Compares a result with the one that the program got: by the digests, and
  /// by the bytes where both are given.
  void compare(call_number call, const earlier_result& before,
               std::uint32_t digest, std::span<const std::byte> now = {});
  /// Records that a result that the program got cannot be had again.
  void note_missing(call_number call, const std::string& why);

  /// Returns whether all results for which room was taken were compared.
  bool is_idle();
  /// Sets the function to call, on any thread, when that becomes true. Call it
  /// before any take().
  void when_idle(std::function<void()> call) { when_idle_ = std::move(call); }
  /// Returns whether a result has differed.
  bool differs() const noexcept { return differs_.load(); }

  /// Returns the differences found so far.
  replay_differences differences();
  /// Does so, for a report. `total` is 0 where there are none, or too few new
  /// ones for another report. It costs one load where nothing is new.
  replay_differences take_differences();

private:
  void note(call_number call, std::string how);

  std::mutex lock_;
  std::condition_variable given_;
  std::uint64_t in_use_ = 0;
  replay_differences found_;
  std::uint64_t next_report_ = 1;
  std::atomic<bool> news_ = false;
  std::atomic<bool> differs_ = false;
  std::function<void()> when_idle_ = [] {};
};

} // namespace vgpu
