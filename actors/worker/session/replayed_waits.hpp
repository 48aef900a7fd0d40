// Replays waits for values that ended under an earlier worker.
#pragma once

#include "actors/worker/session/latch.hpp"
#include "devices/interface/device.hpp"
#include "schema/base/ids.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <unordered_set>
#include <vector>

namespace vgpu {

/// Ends waits for values (call::wait_value) in a replay. A wait that ended
/// before must end again, whatever the memory holds by then: a replay does not
/// stop where the program did, so the value may be overwritten before the wait
/// reads it. The log says where the wait had ended (host_done). There the
/// stream may continue as soon as all earlier work is done that does not itself
/// wait for it. So the work that wrote the value, and all before it in its
/// stream, precedes the work that waited for it.
///
/// It belongs to one session; the executor's thread calls it.
class replayed_waits {
public:
  /// Names a stream: a device's ordinal and a stream of it.
  struct place {
    std::size_t ordinal = 0;
    stream_id stream;
    friend auto operator<=>(const place&, const place&) = default;
  };

  /// Returns whether any wait is open or held. Otherwise the other functions
  /// need not be called.
  bool any() const noexcept { return !gates_.empty() || !held_.empty(); }
  /// Returns whether something in the stream waits for an open call.
  bool holds(place in) const { return held_.contains(in); }
  /// Returns whether something in the stream, or before the event, waits for a
  /// call that had not ended (stops()). Nobody knew of the work behind it.
  bool stays(place in) const;
  bool stays(std::size_t ordinal, event_id event) const;

  /// Returns the latch of the stream's work before the first open call for
  /// which anything that is now enqueued there would wait; null where there is
  /// none.
  std::shared_ptr<latch> before(place in) const;

  // In the following, `blocking` holds the device's streams that wait for the
  // legacy stream and for which that one waits. On a GPU so does anything
  // enqueued there from now on, including a query.
  using stream_set = std::unordered_set<stream_id>;

  /// Stops the stream here until end().
  status begin(device::device& on, place in, call_number call,
               const stream_set& blocking);

  /// Records that the stream stops here until the call ends. The call had not
  /// ended when the earlier worker was lost. So work after it was not done when
  /// other waits ended, even later ones, and may wait for what follows those,
  /// through a word in memory. Call it before the stop is enqueued.
  void stops(device::device& on, place in, call_number call,
             const stream_set& blocking);
  /// Records that the stream stops here until a host function ends. Waits that
  /// end before that in the log do not wait for work after it.
  void stands(device::device& on, place in, call_number call,
              const stream_set& blocking);

  /// Names a device's streams.
  struct streams_of {
    device::device* on = nullptr;
    std::vector<stream_id> streams;
  };
  /// Ends the wait of this call, in the order of the log. Returns false where
  /// there is no such wait. `all` holds the streams of each device.
  bool end(call_number call, std::span<const streams_of> all);

  // These record that a stream comes to wait for an open wait by other means.
  // Call them before that is enqueued.

  void recorded(std::size_t ordinal, event_id event, stream_id in);
  /// Takes an event of any device. `blocking` holds streams of the place.
  void waits(device::device& on, place in, std::size_t ordinal, event_id event,
             const stream_set& blocking);
  /// Records that the next work in `in` follows everything in `other`.
  void waits(device::device& on, place in, stream_id other,
             const stream_set& blocking);

private:
  struct gate;
  /// Describes something in a stream that waits for the end of a call.
  struct obstacle {
    call_number call;
    /// Opens when everything before it in the stream is done.
    std::shared_ptr<latch> before;
    /// Opens likewise for the legacy stream, if that waits for this one.
    std::shared_ptr<latch> legacy_before{};
  };
  using event_place = std::pair<std::size_t, event_id>;

  void forget(call_number call);
  void hold(device::device& on, place in, const std::vector<call_number>& calls,
            const std::shared_ptr<latch>& before, const stream_set& blocking);
  void inherit(device::device& on, place in,
               const std::vector<call_number>& calls,
               const stream_set& blocking);
  std::vector<call_number> calls_at(place in) const;
  /// Returns a latch that opens when everything now in the stream is done.
  std::shared_ptr<latch> now_in(device::device& on, place in) const;
  std::shared_ptr<latch> legacy_before(std::size_t ordinal) const;
  std::map<std::uint64_t, std::shared_ptr<gate>> gates_; // by call number
  std::map<place, std::vector<obstacle>> held_;          // in stream order
  std::map<event_place, std::vector<call_number>> events_;
  std::set<std::uint64_t> stops_; // the calls of stops()
};

} // namespace vgpu
