// What is still to be written into host memory by work in the log.
#pragma once

#include "interposer/session/reply_slots.hpp"
#include "schema/base/ids.hpp"

#include <cstdint>
#include <mutex>
#include <vector>

namespace vgpu::interposer {

/// Copies from the device into pinned memory that nobody waits for yet.
/// Thread-safe.
class pinned_writes {
public:
  /// Waits for the oldest when there are too many.
  void add(const ticket& x, device_address to, std::uint64_t bytes);

  /// Waits for those that touch the range: what is there is final then.
  void wait_for(device_address at, std::uint64_t bytes);

  /// Forgets those that have arrived; cheap when there are none.
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

/// Gives the process's own. Precondition: the driver's state is made.
pinned_writes& writes_under_way() noexcept;

} // namespace vgpu::interposer
