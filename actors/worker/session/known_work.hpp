// What the program knew to be done, and from which point of a replay on.
#pragma once

#include "actors/worker/session/replayed_waits.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace vgpu {

/// Follows, in a replay, which work comes after host functions and late copies
/// (call::host_call) whose end the log has not told yet. A call by which the
/// program learned that such work is done may stand in the log before that end:
/// one thread waits, and another one ends the function. The program knew only
/// at the end. Other work that waited for it earlier could not end where the
/// function's end needs this other work.
///
/// It belongs to one session; the executor's thread uses it.
class known_work {
public:
  using place = replayed_waits::place;
  /// Names an event of one device.
  using event_place = std::pair<std::size_t, event_id>;

  /// Returns whether anything is held. Otherwise the other functions need not
  /// be called.
  bool any() const noexcept { return !streams_.empty(); }

  /// Records that the stream stops here until the call ends.
  void opens(place in, call_number call);
  /// Records that the next work in `in` follows everything in `other`.
  void follows(place in, place other);
  /// Does the same for a record of an event.
  void follows(place in, event_place record);
  /// Records that the event was recorded in the stream. `copy` is another event
  /// at the same point, which this object then owns. Returns a copy that is of
  /// no more use.
  std::optional<event_id> recorded(event_place event, place in,
                                   std::optional<event_id> copy);

  bool holds(place in) const { return streams_.contains(in); }
  bool holds(event_place event) const { return events_.contains(event); }

  /// Keeps `mark`, an event at the end of the stream, until everything ends
  /// that holds the stream.
  void learn_later(place in, event_id mark);
  /// Does the same for the record of an event.
  void learn_later(event_place event);

  /// Names what an ended call sets free: events that the program knew to be
  /// reached, and copies that are of no more use.
  struct freed {
    std::vector<event_place> known, unused;
  };
  /// Records the call's end.
  freed ends(call_number call);

private:
  using calls = std::set<std::uint64_t>;
  struct record {
    calls behind;
    std::optional<event_id> copy;
  };
  struct later {
    calls behind;
    event_place mark;
  };

  std::map<place, calls> streams_;
  std::map<event_place, record> events_;
  std::vector<later> later_;
};

} // namespace vgpu
