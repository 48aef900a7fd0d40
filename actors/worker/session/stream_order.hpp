// Order between streams that CUDA promises and a device does not know of.
#pragma once

#include "devices/interface/device.hpp"

#include <cstdint>
#include <unordered_map>
#include <unordered_set>

namespace vgpu {

/// Of one device; one thread.
///
/// A synchronous copy or memset is done, for whatever is enqueued after it, in
/// any stream, although nothing here waits for it; memory that was freed is not
/// touched before the work that used it is done. What is to come first is only
/// noted; a stream catches up when it is next used.
class stream_order {
public:
  /// All that was enqueued in the legacy stream comes before all that will be
  /// enqueued anywhere.
  void after_legacy() noexcept { legacy_ = ++now_; }
  /// All that was enqueued in any stream does.
  void after_all() noexcept { all_ = ++now_; }

  /// Call before enqueueing in `stream`: makes it wait for what it must.
  status join(device::device& on, stream_id stream,
              const std::unordered_set<stream_id>& streams);

  /// The device's stream for what a program's host does with managed memory: no
  /// program's work is enqueued in it, and it waits for none. Made when it is
  /// first wanted.
  result<stream_id> host_stream(device::device& on);
  /// All that was enqueued in the host's stream comes before all that will be
  /// enqueued anywhere.
  void after_host() noexcept { host_ = ++now_; }
  /// What comes in the host's stream waits for what is in `other`.
  status host_behind(device::device& on, stream_id other);

  /// An event of our own behind what is in `stream` by now.
  result<event_id> mark(device::device& on, stream_id stream);
  /// What comes in the host's stream waits for a mark, which is gone then.
  status host_behind(device::device& on, event_id mark);

  void forget(stream_id stream) { seen_.erase(stream); }

  /// What join() would make the stream wait for.
  bool awaits_all(stream_id stream) const { return since(stream) < all_; }
  bool awaits_legacy(stream_id stream) const { return since(stream) < legacy_; }

private:
  status wait_for(device::device& on, stream_id stream, stream_id other);
  std::uint64_t since(stream_id stream) const {
    auto found = seen_.find(stream);
    return found == seen_.end() ? 0 : found->second;
  }

  std::uint64_t now_ = 0;
  std::uint64_t legacy_ = 0;
  std::uint64_t all_ = 0;
  std::uint64_t host_ = 0;
  bool has_host_stream_ = false;
  std::unordered_map<stream_id, std::uint64_t> seen_;
  /// Events of our own, apart from those that programs create.
  std::uint64_t next_event_ = std::uint64_t{1} << 63;
};

} // namespace vgpu
