// A queue that is fast to serve with very many entries.
#pragma once

#include "policies/placement/constraints.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <set>

namespace vgpu::simulator {

/// A waiting_queue is the queue in order of rank, in lanes. Where an entry of a
/// lane finds nothing, those of higher lanes, which demand more, find nothing
/// either. Lane 0 is for entries that do not compare in this way.
class waiting_queue {
public:
  using rank = policy::queue_rank;
  using lane = std::uint32_t;
  static constexpr auto last_lane = std::numeric_limits<lane>::max();

  /// Adds an entry.
  void insert(const rank& x, lane in) {
    lanes_[in].insert(x);
    ++size_;
  }
  /// Removes an entry, if it is there.
  void erase(const rank& x, lane in) {
    auto i = lanes_.find(in);
    if (i != lanes_.end())
      size_ -= i->second.erase(x);
  }
  std::size_t size() const noexcept { return size_; }
  /// Returns whether all others go before this one.
  bool is_last(const rank& x) const {
    for (const auto& [number, all] : lanes_)
      if (!all.empty() && x < *all.rbegin())
        return false;
    return true;
  }

  /// Says how the pass continues after an entry.
  struct verdict {
    /// The entry does not wait any more.
    bool placed = false;
    /// The pass skips all lanes above this one.
    lane open = last_lane;
    /// The pass ends.
    bool enough = false;
  };
  /// Calls `f(rank) -> verdict` for each entry in order. `f` must not change
  /// the queue. A verdict must not be both `placed` and `enough`.
  template <class F>
  void serve(F f) {
    struct cursor {
      lane number;
      std::set<rank>* all;
      std::set<rank>::iterator at;
    };
    std::map<rank, cursor> heads;
    for (auto& [number, all] : lanes_)
      if (!all.empty())
        heads.emplace(*all.begin(), cursor{number, &all, all.begin()});
    auto open = last_lane;
    while (!heads.empty()) {
      auto x = heads.begin()->second;
      heads.erase(heads.begin());
      if (x.number > open)
        continue;
      verdict got = f(*x.at);
      if (got.enough)
        return;
      open = std::min(open, got.open);
      size_ -= got.placed ? 1 : 0;
      x.at = got.placed ? x.all->erase(x.at) : std::next(x.at);
      if (x.at != x.all->end())
        heads.emplace(*x.at, x);
    }
  }

private:
  std::map<lane, std::set<rank>> lanes_;
  std::size_t size_ = 0;
};

} // namespace vgpu::simulator
