// The order between streams that CUDA promises and a device does not keep.
#pragma once

#include "devices/interface/device.hpp"

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace vgpu {

/// Keeps this order on one device. Not thread-safe.
///
/// CUDA promises that a synchronous copy or memset is done before anything that
/// is enqueued after it, in any stream, and that freed memory is not used again
/// before its work is done. The worker does not wait for either. It only notes
/// what comes first, and a stream catches up when it is next used, or before a
/// stream begins to wait for the program.
class stream_order {
public:
  /// Makes the streams and the event that this object may use later. A driver
  /// gives a stream memory among that of modules, and perhaps an event. So a
  /// replay, which uses them where the program's first run did not, must find
  /// them made, or else the variables of modules would have other addresses
  /// than in the first run.
  status make_objects(device::device& on);

  /// Orders everything in the legacy stream before everything enqueued later,
  /// in any stream.
  void after_legacy() noexcept { legacy_ = ++now_; }
  /// Orders everything in any stream before everything enqueued later.
  void after_all() noexcept { all_ = ++now_; }

  /// Makes `stream` wait for the work that must precede it. Call it before
  /// enqueueing.
  status join(device::device& on, stream_id stream,
              const std::unordered_set<stream_id>& streams);

  /// Makes streams that are created later wait for what must precede all work
  /// now. They must not wait for what other streams will wait for.
  status keep_for_new_streams(device::device& on,
                              const std::unordered_set<stream_id>& streams);
  /// Makes a new stream wait for what was kept.
  status begin(device::device& on, stream_id stream);
  /// Returns the stream that waits for what is kept, if anything ever was.
  std::optional<stream_id> kept_stream() const;

  /// Returns the device's stream for the host's use of managed memory. No work
  /// of a program is enqueued in it, and it waits for none.
  stream_id host_stream() noexcept;
  /// Returns whether that stream was ever used.
  bool uses_host_stream() const noexcept { return uses_host_stream_; }
  /// Orders everything in the host's stream before everything enqueued later,
  /// in any stream.
  void after_host() noexcept { host_ = ++now_; }
  /// Does the same for a write of managed memory in the host's stream.
  void after_managed_write() noexcept { managed_ = host_ = ++now_; }
  /// Makes the host's stream wait for what is in `other`.
  status host_behind(device::device& on, stream_id other);

  /// Records an event of our own after what is in `stream` now.
  result<event_id> mark(device::device& on, stream_id stream);
  /// Makes the host's stream wait for a mark, and destroys the mark.
  status host_behind(device::device& on, event_id mark);

  /// Lets join() make this stream wait for managed memory alone. Its caller
  /// orders it after other streams by events.
  void leave_out(stream_id stream) { left_out_.insert(stream); }
  bool is_left_out(stream_id stream) const {
    return left_out_.contains(stream);
  }
  void forget(stream_id stream) {
    seen_.erase(stream);
    left_out_.erase(stream);
  }

  /// Return whether join() would make the stream wait.
  bool awaits_all(stream_id stream) const { return since(stream) < all_; }
  bool awaits_legacy(stream_id stream) const { return since(stream) < legacy_; }

private:
  status wait_for(device::device& on, stream_id stream, stream_id other);
  std::uint64_t since(stream_id stream) const {
    if (is_left_out(stream))
      return now_;
    auto found = seen_.find(stream);
    return found == seen_.end() ? 0 : found->second;
  }

  std::uint64_t now_ = 0;
  std::uint64_t legacy_ = 0;
  std::uint64_t all_ = 0;
  std::uint64_t host_ = 0;
  std::uint64_t managed_ = 0;
  bool uses_host_stream_ = false;
  bool uses_kept_stream_ = false;
  std::unordered_map<stream_id, std::uint64_t> seen_;
  std::unordered_set<stream_id> left_out_;
  /// Is recorded anew for each wait, which is for the record before it. Our own
  /// events do not clash with those that programs create.
  static constexpr event_id between{std::uint64_t{1} << 63};
  std::uint64_t next_event_ = between.value + 1;
};

} // namespace vgpu
