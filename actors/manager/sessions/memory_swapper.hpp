// Memory swapping, where more memory is promised than exists. Sessions with
// work are swapped out for waiting sessions, and then wait themselves.
#pragma once

#include "actors/manager/cluster/capacity_index.hpp"
#include "actors/manager/cluster/cluster_state.hpp"
#include "actors/manager/cluster/manager_clock.hpp"
#include "actors/manager/cluster/manager_options.hpp"
#include "actors/manager/sessions/movement.hpp"
#include "actors/manager/sessions/session_placement.hpp"
#include "policies/lifecycle/memory_swapping.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace vgpu {

/// Orders sessions to leave their memory to waiting sessions. It changes the
/// records only through the movements that it orders. Not thread-safe.
class memory_swapper {
public:
  memory_swapper(const manager_options& options, manager_clock& clock,
                 cluster_state& state, capacity_index& capacity,
                 const session_placement& placement, movement& moves);
  memory_swapper(const memory_swapper&) = delete;
  memory_swapper& operator=(const memory_swapper&) = delete;

  /// Swaps out sessions that have had their memory for long enough.
  void on_tick();
  /// Returns when the next session will have had its memory for long enough.
  std::optional<time_point> next_deadline() const noexcept { return next_; }

private:
  /// Holds the sessions for which others leave a node, and which pGPUs they
  /// leave.
  struct departures {
    std::set<session_id> for_whom;
    std::set<std::uint32_t> pgpus;

    void add(session_id whom, const policy::place& left);
  };
  using departures_by_node = std::map<std::string, departures>;
  /// Holds the results so far of one pass over the queue.
  struct pass {
    departures_by_node leaving;
    /// Holds the sessions for which others leave already.
    std::set<session_id> awaited;
    /// Holds the sessions that may be swapped out, in the order of
    /// policy::sort_by_turn().
    std::vector<policy::resident> residents;
    /// Holds, by priority, the least memory for which no session could leave.
    std::map<std::int32_t, std::uint64_t> in_vain;
    policy::vain_searches vain;
    std::map<std::string, policy::node_view> copies;
  };

  pass begin_pass() const;
  departures_by_node departures_under_way() const;
  bool may_be_left(const policy::place& where,
                   const departures_by_node& leaving) const;
  std::vector<policy::resident>
  residents(const departures_by_node& leaving) const;
  bool wants_room(const session_placement::queued& waiting,
                  const pass& so_far) const;
  policy::room_decision room_for(const session_record& x,
                                 const policy::demand& what, pass& so_far);
  bool make_room_for(const session_record& x, pass& so_far);
  void look_again_at(time_point when);

  const manager_options& options_;
  manager_clock& clock_;
  cluster_state& state_;
  capacity_index& capacity_;
  const session_placement& placement_;
  movement& moves_;
  std::optional<time_point> next_;
};

} // namespace vgpu
