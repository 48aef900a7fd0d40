// Writes to host memory by work that is still in the log.
#pragma once

#include "interposer/session/reply_slots.hpp"
#include "schema/base/ids.hpp"

#include <cstdint>
#include <mutex>
#include <vector>

namespace vgpu::interposer {

/// Holds the copies from the device into pinned memory for which no thread has
/// waited yet. Thread-safe.
class pinned_writes {
public:
  /// Adds a copy. Waits for the oldest when there are too many.
  void add(const ticket& x, device_address to, std::uint64_t bytes);

  /// Waits for the copies that touch the range, whose bytes are final then.
  void wait_for(device_address at, std::uint64_t bytes);

  /// Forgets the copies that are done. Costs little when there are none.
  void collect();

private:
  struct entry {
    ticket asked;
    device_address to = 0;
    std::uint64_t bytes = 0;
  };
  std::mutex mutex_;
  std::atomic<std::size_t> count_{0};
  std::vector<entry> entries_;
};

/// Returns the process's pending copies. Precondition: the driver's state is
/// made.
pinned_writes& writes_under_way() noexcept;

} // namespace vgpu::interposer
