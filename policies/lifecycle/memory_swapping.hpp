// Turns with memory: more is promised of it than there is, and who waits for
// some gets it from those who have had it for long enough.
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

struct swapping_options {
  /// How much memory may be promised, beside what there is: 1 to 16. With 1
  /// nobody's turn ends.
  double promised = 1;
  /// The part of its time, at most, that a vGPU's coming and going takes.
  double swapped_part = 0.1;
  /// No turn is shorter.
  duration shortest = std::chrono::seconds{2};
  /// On a node, for so many somebody leaves at a time: each who does has its
  /// memory copied there.
  std::size_t at_once = 4;
};

/// A session that has memory, and works.
struct resident {
  session_id id;
  place where;
  std::uint64_t memory = 0; // bytes of each pGPU
  std::int32_t priority = 0;
  time_point since; // its turn began
  /// What it took to leave and come back the last time; 0: it never did.
  duration swap{0};
  std::uint64_t state = 0;  // bytes that would leave
  time_point rests_until{}; // it could not leave, and is left alone until then
};

/// Of those whose turns end first so many are looked at, and no more.
inline constexpr std::size_t most_looked_at = 256;

/// When its turn ends: `swap` is at most the set part of turn and swap.
time_point turn_ends(const resident& x, const swapping_options& options);

/// Puts those whose turns end first first.
void sort_by_turn(std::span<resident> all, const swapping_options& options);

struct room_decision {
  std::vector<session_id> leave; // now
  /// When enough turns will have ended; nothing: that would not help either.
  std::optional<time_point> look_again;
  /// If not even that: bytes that a pGPU has at most when all have left who
  /// were looked at.
  std::optional<std::uint64_t> most_room;
};

/// A node by its name, as placements see it, with nothing kept for anybody;
/// null: it is not there.
using node_finder = std::function<const node_view*(const std::string& name)>;
/// The next one in the order of sort_by_turn(); null: there is none.
using next_resident = std::function<const resident*()>;

/// Who is to leave so that `what`, of that priority, for which there is no
/// room, has a place: those whose turns end first, none of a higher priority,
/// and no more than it takes.
///
/// Where nobody can leave now, nobody can for another of that priority that
/// asks for as much memory or more.
room_decision make_room(const node_finder& nodes, const demand& what,
                        std::int32_t priority, const next_resident& next,
                        time_point now, const swapping_options& options);

/// What need not be looked for, of one look at all that wait: as long as nobody
/// leaves, make_room() would go through the same sessions again.
class vain_searches {
public:
  void note(std::int32_t priority, const room_decision& got) {
    if (!got.leave.empty())
      most_room_.clear();
    else if (got.most_room)
      most_room_[priority] = *got.most_room;
  }
  /// Whether nobody can leave for so much memory, nor will soon, whatever else
  /// is wished for.
  bool cover(std::int32_t priority, std::uint64_t memory) const {
    auto known = most_room_.find(priority);
    return known != most_room_.end() && memory > known->second;
  }

private:
  std::map<std::int32_t, std::uint64_t> most_room_; // by priority
};

} // namespace vgpu::policy
