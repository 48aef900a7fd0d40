// Turns with memory, of very many vGPUs.
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

/// What the policy of turns (policies/lifecycle/memory_swapping.hpp) is asked,
/// kept so that asking it does not take a look at every vGPU: who has memory
/// lies in the order in which turns end, but where others leave meanwhile.
class swap_candidates {
public:
  /// Of one vGPU, in seconds.
  struct past {
    double queued_at = 0; // when it came, or made room for others
    double since = 0;     // its turn began
    double left_in = 0;   // what it took to leave, the last time,
    double swapped = 0;   // and to come back as well
    double got_place = 0;
    bool preempted = false; // and has no place since
  };

  swap_candidates(const policy::swapping_options& options, std::size_t vgpus)
      : options_(options), past_(options.promised > 1 ? vgpus : 0) {}

  bool on() const noexcept { return !past_.empty(); }
  past& of(std::uint32_t i) { return past_[i]; }
  const past& of(std::uint32_t i) const { return past_[i]; }

  /// It has its memory, on that node, and may be made to leave;
  void may_leave(std::uint32_t i, std::uint32_t node, policy::resident x);
  /// now it may not.
  void stays(std::uint32_t i);

  /// It may leave, and does, for that one's sake. Nobody else leaves a pGPU
  /// meanwhile, nor a node that enough leave.
  void leaves(std::uint32_t i, std::uint32_t for_whom);
  void has_left(std::uint32_t i);
  bool is_awaited_by(std::uint32_t i) const { return awaited_.contains(i); }
  /// Before then nobody leaves; never, if there is nobody who could.
  policy::time_point first_end() const {
    return by_end_.empty() ? policy::time_point::max()
                           : by_end_.begin()->first.first;
  }

  /// policy::make_room(), of all that may leave.
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
  turns_by_end by_end_; // of those, where nobody leaves already
  std::unordered_map<std::uint32_t, leaver> leavers_;
  std::unordered_map<std::uint32_t, unsigned> awaited_; // by so many of those
  std::unordered_map<std::uint32_t, on_node> nodes_;
};

} // namespace vgpu::simulator
