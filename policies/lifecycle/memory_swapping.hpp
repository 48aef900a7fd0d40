// Memory swapping: more memory is promised than exists, and sessions that wait
// for memory get it from sessions that have had it for long enough.
#pragma once

#include "policies/placement/placement.hpp"
#include "policies/placement/views.hpp"
#include "schema/base/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vgpu::policy {

/// Holds the options of memory swapping.
struct swapping_options {
  /// Holds the promised memory as a multiple of the existing memory, 1 to 16.
  /// With 1 there is no swapping.
  double promised = 1;
  /// Holds the largest part of a vGPU's time that its suspending and restoring
  /// may take.
  double swapped_part = 0.1;
  /// Holds the shortest turn.
  duration shortest = std::chrono::seconds{2};
  /// Holds the number of sessions that are suspended on a node at a time,
  /// because the memory of each is copied there.
  std::size_t at_once = 4;
};

/// Describes a session that has memory and works.
struct resident {
  session_id id;
  place where;
  /// Holds the bytes on each pGPU.
  std::uint64_t memory = 0;
  std::int32_t priority = 0;
  /// Says when the turn began.
  time_point since;
  /// Holds the time that its last suspending and restoring took. 0: there was
  /// none.
  duration swap{0};
  /// Holds the number of bytes to suspend.
  std::uint64_t state = 0;
  /// Says until when a session that could not be suspended is left alone.
  time_point rests_until{};
};

/// Gives the number of sessions that make_room() considers, those whose turns
/// end first.
inline constexpr std::size_t most_looked_at = 256;

/// Returns when a session's turn ends: late enough that `swap` is at most the
/// configured part of turn and swap.
time_point turn_ends(const resident& x, const swapping_options& options);

/// Sorts sessions by the ends of their turns.
void sort_by_turn(std::span<resident> all, const swapping_options& options);

/// Describes the sessions to suspend, or when to try again.
struct room_decision {
  /// Holds the sessions to suspend now.
  std::vector<session_id> leave;
  /// Says when enough turns will have ended. Nothing: waiting does not help.
  std::optional<time_point> look_again;
  /// Holds, where waiting does not help, the largest room, in bytes, that any
  /// pGPU would have without all considered sessions.
  std::optional<std::uint64_t> most_room;
};

/// Returns a node by its name, as placements see it and with nothing kept, or
/// null where it does not exist.
using node_finder = std::function<const node_view*(const std::string& name)>;
/// Returns the next session in the order of sort_by_turn(), or null.
using next_resident = std::function<const resident*()>;

/// Chooses the sessions to suspend so that `what`, of the given priority, gets
/// a place. It takes those whose turns end first, none of a higher priority,
/// and no more than necessary.
///
/// If no session can leave now, none can for another demand of that priority
/// for at least as much memory.
room_decision make_room(const node_finder& nodes, const demand& what,
                        std::int32_t priority, const next_resident& next,
                        time_point now, const swapping_options& options);

/// Remembers failed searches during one pass over the queue. As long as no
/// session leaves, make_room() would consider the same sessions again.
class vain_searches {
public:
  /// Records the outcome of a search for a demand of this priority.
  void note(std::int32_t priority, const room_decision& got) {
    if (!got.leave.empty())
      most_room_.clear();
    else if (got.most_room)
      most_room_[priority] = *got.most_room;
  }
  /// Returns whether no session can leave for this much memory, now or soon,
  /// whatever the other constraints are.
  bool cover(std::int32_t priority, std::uint64_t memory) const {
    auto known = most_room_.find(priority);
    return known != most_room_.end() && memory > known->second;
  }

private:
  /// Holds the most room by priority.
  std::map<std::int32_t, std::uint64_t> most_room_;
};

} // namespace vgpu::policy
