// Memory swapping for very many vGPUs.
#pragma once

#include "policies/lifecycle/memory_swapping.hpp"
#include "policies/placement/placement_index.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vgpu::simulator {

/// Indexes the vGPUs for the policy of memory swapping
/// (policies/lifecycle/memory_swapping.hpp), so that a decision does not visit
/// every vGPU. It holds the vGPUs with memory in the order in which their turns
/// end, except where others are leaving.
class swap_candidates {
public:
  /// Describes one vGPU's past, in seconds.
  struct past {
    /// Says when it arrived, or was suspended for others.
    double queued_at = 0;
    /// Says when its turn began.
    double since = 0;
    /// Says how long its last suspending took.
    double left_in = 0;
    /// Says how long its last suspending and restoring took.
    double swapped = 0;
    double got_place = 0;
    /// Tells whether it was suspended for others and has had no place since.
    bool preempted = false;
  };

  swap_candidates(const policy::swapping_options& options, std::size_t vgpus)
      : options_(options), past_(options.promised > 1 ? vgpus : 0) {}

  bool on() const noexcept { return !past_.empty(); }
  past& of(std::uint32_t i) { return past_[i]; }
  const past& of(std::uint32_t i) const { return past_[i]; }

  /// Records that a vGPU has its memory on that node and may be suspended.
  void may_leave(std::uint32_t i, std::uint32_t node, policy::resident x);
  /// Records that a vGPU may not be suspended now.
  void stays(std::uint32_t i);

  /// Records that a vGPU is being suspended for another one. Meanwhile no other
  /// vGPU leaves its pGPUs, nor a node at its limit.
  void leaves(std::uint32_t i, std::uint32_t for_whom);
  /// Records that the suspending of a vGPU has ended.
  void has_left(std::uint32_t i);
  /// Returns whether any vGPU is being suspended for this one.
  bool is_awaited_by(std::uint32_t i) const { return awaited_.contains(i); }
  /// Returns when the first turn ends. No vGPU leaves before that.
  policy::time_point first_end() const {
    return by_end_.empty() ? policy::time_point::max()
                           : by_end_.begin()->first.first;
  }

  /// Calls policy::make_room() with all vGPUs that may leave.
  policy::room_decision make_room(const policy::placement_index& cluster,
                                  const policy::demand& what,
                                  std::int32_t priority,
                                  policy::time_point now) const;

private:
  struct resident {
    std::uint32_t node;
    policy::time_point ends;
    policy::resident what;
  };
  using turns_by_end =
      std::map<std::pair<policy::time_point, std::uint32_t>, const resident*>;
  /// Describes a vGPU that is being suspended.
  struct leaver {
    std::uint32_t for_whom;
    std::uint32_t node;
    std::vector<std::uint32_t> pgpus;
  };
  struct on_node {
    std::set<std::uint32_t> residents;
    std::set<std::uint32_t> leavers;
  };

  bool is_left(const resident& x) const;
  void file(std::uint32_t i, const resident& x);
  void refile(std::uint32_t node);

  policy::swapping_options options_;
  std::vector<past> past_;
  std::unordered_map<std::uint32_t, resident> residents_;
  /// Holds the residents_ at places that no vGPU is leaving.
  turns_by_end by_end_;
  std::unordered_map<std::uint32_t, leaver> leavers_;
  /// Counts, for each waiting vGPU, the vGPUs that leave for it.
  std::unordered_map<std::uint32_t, unsigned> awaited_;
  std::unordered_map<std::uint32_t, on_node> nodes_;
};

} // namespace vgpu::simulator
