// Waits for values that an earlier worker saw end, when they are replayed.
#pragma once

#include "actors/link/latch.hpp"
#include "devices/interface/device.hpp"
#include "schema/base/ids.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace vgpu {

/// A wait for a value (call::wait_value) that has ended once must end in a
/// replay, whatever is in memory by then: a replay does not stop where the
/// program did, so that the value may be overwritten before anybody looks. The
/// log says where it had ended (host_done): there the stream is let go on, as
/// soon as all that was enqueued before, and does not itself wait for this, is
/// done. So what made the value, and all before it in its stream, comes before
/// what waited for it.
///
/// Of one session; called by the executor's thread.
class replayed_waits {
public:
  /// Where a stream is: a device's ordinal and a stream of it.
  struct place {
    std::size_t ordinal = 0;
    stream_id stream;
    friend auto operator<=>(const place&, const place&) = default;
  };

  /// Whether one is open, or something that was to be known of: all else is of
  /// no use otherwise.
  bool any() const noexcept { return !gates_.empty() || !held_.empty(); }
  /// Whether something in the stream waits for an open one.
  bool holds(place in) const { return held_.contains(in); }
  bool holds(std::size_t ordinal, event_id event) const {
    return events_.contains({ordinal, event});
  }

  // `blocking`: the legacy stream waits for this one, and on a GPU whatever is
  // enqueued there from now on, a question whether it is done as well.

  /// The stream stops here until end().
  status begin(device::device& on, place in, call_number call, bool blocking);

  /// The stream stops here until the call ends, which it had not when the
  /// earlier worker was lost: what comes behind it had not been done when
  /// others ended, also those that follow, and may wait for what comes behind
  /// them, by a word in memory. Before it is enqueued.
  void stops(device::device& on, place in, call_number call, bool blocking);

  /// A device's streams.
  struct streams_of {
    device::device* on = nullptr;
    std::vector<stream_id> streams;
  };
  /// The call ended here, in the order of the log; false where it is none of
  /// these. `all` is of each device.
  bool end(call_number call, std::span<const streams_of> all);

  // What comes to wait for an open one by other means. Before it is enqueued:

  void recorded(std::size_t ordinal, event_id event, stream_id in);
  /// For an event of whatever device.
  void waits(device::device& on, place in, std::size_t ordinal, event_id event);
  /// Its next work comes behind all that is in `other`.
  void waits(device::device& on, place in, stream_id other);

private:
  struct gate;
  /// Something in a stream that waits for the end of a call.
  struct obstacle {
    call_number call;
    /// All before it in the stream is done.
    std::shared_ptr<latch> before;
    /// Likewise in the legacy stream, where that waits for this one.
    std::shared_ptr<latch> legacy_before{};
  };
  using event_place = std::pair<std::size_t, event_id>;

  void forget(call_number call);
  void inherit(device::device& on, place in,
               const std::vector<call_number>& calls);
  std::vector<call_number> calls_at(place in) const;
  /// Reached when all that is in the stream now is done.
  std::shared_ptr<latch> now_in(device::device& on, place in) const;
  /// What the legacy stream had before the first of the open ones in a blocking
  /// stream; null where there is none.
  std::shared_ptr<latch> legacy_before(std::size_t ordinal) const;
  /// The same, where one is about to open in this stream.
  std::shared_ptr<latch> legacy_of(device::device& on, place in,
                                   bool blocking) const;

  std::map<std::uint64_t, std::shared_ptr<gate>> gates_; // by call number
  std::map<place, std::vector<obstacle>> held_;          // in stream order
  std::map<event_place, std::vector<call_number>> events_;
};

} // namespace vgpu
