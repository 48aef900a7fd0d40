// Compares the results of a replay with those that the program got before.
#pragma once

#include "schema/base/ids.hpp"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace vgpu {

/// Holds the calls whose results differ in a replay, since this worker began.
struct replay_differences {
  std::vector<std::uint64_t> calls; // call numbers, the first few
  std::uint64_t total = 0;
};

/// Compares digests, and collects the differences. Thread-safe.
class replay_checks {
public:
  /// Returns room for bytes that are read to be compared, which is freed when
  /// it is dropped. Waits while more than a limit is in use. Returns null when
  /// that lasts too long because a device hangs.
  static std::shared_ptr<std::byte[]> take(std::shared_ptr<replay_checks> self,
                                           std::uint64_t bytes);

  void compare(call_number call, std::uint32_t before, std::uint32_t now);

  /// Returns the differences found so far. `total` is 0 where there are none,
  /// or too few new ones for another report. It costs one load where nothing is
  /// new.
  replay_differences take_differences();

private:
  std::mutex lock_;
  std::condition_variable given_;
  std::uint64_t in_use_ = 0;
  replay_differences found_;
  std::uint64_t next_report_ = 1;
  std::atomic<bool> news_ = false;
};

} // namespace vgpu
