// The cluster as a placement wants to find it: for very many nodes.
#pragma once

#include "policies/placement.hpp"

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vgpu::policy {

/// Answers as choose_place() does, without looking at every node: pGPUs lie in
/// the order in which a placement prefers them, in classes of free memory. A
/// demand for one pGPU, without wishes but where its program runs and without
/// a past, costs some look-ups however large the cluster is; every other is
/// left to choose_place(). One thread.
class placement_index {
public:
  placement_index(cluster_view cluster, placement_strategy how);
  placement_index(const placement_index&) = delete;
  placement_index& operator=(const placement_index&) = delete;

  std::variant<place, no_place> choose(const demand& what) const;
  /// A session with this demand is there now,
  void take(const place& where, const demand& what);
  /// or no more.
  void give(const place& where, const demand& what);

  const cluster_view& cluster() const noexcept { return cluster_; }

private:
  using spot = std::pair<std::size_t, std::size_t>; // node, pGPU
  /// The names make it one answer.
  using key = std::tuple<placement_key, std::string_view, std::uint32_t, spot>;
  /// Four for each power of two.
  static constexpr std::size_t classes = 64 * 4;
  struct shelf {
    placement_strategy how;
    std::array<std::set<key>, classes> by_free;
  };
  using found = std::optional<key>;

  static std::size_t class_of(std::uint64_t free);
  key key_at(const shelf& in, const spot& x) const;
  /// Calls `f(set, key)` for those pGPUs of the node that are offered, in each
  /// shelf; `only`: where these alone have changed.
  template <class F>
  void for_each(std::size_t node, const std::vector<std::uint32_t>* only, F f);
  template <class F>
  void change(const place& where, F f);
  static bool is_simple(const demand& what);
  found best_on_host(const demand& what) const;
  found best_in(const shelf& in, const demand& what) const;
  found first_fit(const std::set<key>& among, const shelf& in,
                  const demand& what) const;
  const node_view& node(const spot& x) const { return cluster_.nodes[x.first]; }
  const pgpu_view& pgpu(const spot& x) const {
    return cluster_.nodes[x.first].pgpus[x.second];
  }

  cluster_view cluster_;
  std::vector<std::uint64_t> sessions_; // of each node
  /// By the strategy, and, where that would make a pGPU take too much, without.
  std::vector<shelf> shelves_;
  std::unordered_map<std::string, std::size_t> by_name_;
  std::unordered_map<std::string, std::vector<std::size_t>> by_host_;
};

} // namespace vgpu::policy
