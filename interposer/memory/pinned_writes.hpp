// Writes to host memory by work that is still in the log.
#pragma once

#include "interposer/session/reply_slots.hpp"
#include "interposer/stream/stream_event.hpp"
#include "schema/base/ids.hpp"

#include <cstdint>
#include <mutex>
#include <vector>

namespace vgpu::interposer {

/// Holds the work that may write to pinned memory and for which no thread has
/// waited yet. Thread-safe.
class pinned_writes {
public:
  /// Adds a copy from the device. Waits for the oldest when there are too many.
  void add(const ticket& x, device_address to, std::uint64_t bytes);

  /// Adds a fill, which is the stream's latest work.
  void add_fill(const stream& in, device_address to, std::uint64_t bytes);

  /// Adds a kernel that uses pinned memory in place, as the stream's latest
  /// work. It may write to all such memory, and it may wait for the program.
  void add_kernel(const stream& in);

  /// Waits for the copies that touch the range, whose bytes are final then.
  void wait_for(device_address at, std::uint64_t bytes);

  /// Tells whether memory in the range may change before the work is done.
  bool may_change(device_address at, std::uint64_t bytes);

  /// Forgets the copies that are done. Costs little when there are none.
  void collect();

private:
  struct entry {
    ticket asked;
    device_address to = 0;
    std::uint64_t bytes = 0;
  };
  /// Describes work that has no answer. It is done when its stream has done
  /// all work up to `last`.
  struct unanswered {
    progress done_until;
    std::uint8_t device = 0;
    std::uint64_t last = 0;
    device_address begin = 0, end = 0;

    bool is_done() const;
  };
  void add(const stream& in, device_address begin, device_address end);

  std::mutex mutex_;
  std::atomic<std::size_t> count_{0};
  std::vector<entry> entries_;
  std::atomic<std::size_t> unanswered_count_{0};
  std::vector<unanswered> unanswered_;
};

/// Returns the process's pending writes. Precondition: the driver's state is
/// made.
pinned_writes& writes_under_way() noexcept;

} // namespace vgpu::interposer
