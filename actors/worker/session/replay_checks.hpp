// Compares what a replay brings with what the program was brought before.
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

/// What a replay brought differently since this worker began.
struct replay_differences {
  std::vector<std::uint64_t> calls; // call numbers, the first few
  std::uint64_t total = 0;
};

/// Thread-safe.
class replay_checks {
public:
  /// Room for bytes that are read to be compared, given back when it is
  /// dropped. Waits while more than a limit is in use; null when that lasts
  /// (a device that hangs).
  static std::shared_ptr<std::byte[]> take(std::shared_ptr<replay_checks> self,
                                           std::uint64_t bytes);

  void compare(call_number call, std::uint32_t before, std::uint32_t now);

  /// What was found since it last gave anything; total 0 where that is nothing,
  /// or too little to tell again. Costs a look where there is no news.
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
