// The cluster as a placement wants to find it: for very many nodes.
#pragma once

#include "policies/placement/placement.hpp"
#include "policies/placement/placement_plugin.hpp"

#include <array>
#include <cstddef>
#include <map>
#include <memory>
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
/// demand for one pGPU costs some look-ups however large the cluster is, more
/// only where its constraints leave few pGPUs of very many; one for several,
/// that is not bound to a node or a host, a look at every node. One thread.
///
/// What is kept for those who wait (keep()) is taken by nobody who asks for
/// memory, until let_go().
class placement_index {
public:
  /// With a policy of the user's own, that one decides.
  placement_index(cluster_view cluster, placement_strategy how,
                  std::shared_ptr<placement_policy> own = nullptr);
  placement_index(const placement_index&) = delete;
  placement_index& operator=(const placement_index&) = delete;

  std::variant<place, no_place> choose(const demand& what) const;
  /// A session with this demand is there now,
  void take(const place& where, const demand& what);
  /// or no more.
  void give(const place& where, const demand& what);

  /// As policy::place_to_keep(), of the cluster with nothing kept.
  std::optional<place> place_to_keep(const demand& what);
  void keep(const place& where);
  void let_go();

  /// Whether it had a place if nothing were kept.
  bool has_room(const demand& what) const;
  /// One of cluster()'s nodes, with nothing kept there.
  node_view with_nothing_kept(std::size_t node) const;
  /// The same of a node by its name: itself, or a copy that is put there; null:
  /// there is none of that name.
  const node_view*
  with_nothing_kept(const std::string& name,
                    std::map<std::string, node_view>& copies) const;

  /// With what is kept.
  const cluster_view& cluster() const noexcept { return cluster_; }

private:
  using spot = std::pair<std::size_t, std::size_t>; // node, pGPU
  /// The names make it one answer.
  using key = std::tuple<placement_key, std::string_view, std::uint32_t, spot>;
  /// Four for each power of two.
  static constexpr auto classes = std::size_t{64} * 4;
  struct shelf {
    placement_strategy how;
    std::array<std::set<key>, classes> by_free;
  };
  using found = std::optional<key>;
  using maybe = std::optional<place>;

  static std::size_t class_of(std::uint64_t free);
  /// The least free memory that is in a class above this one's.
  static std::uint64_t end_of_class(std::uint64_t free);
  key key_at(const shelf& in, const spot& x) const;
  /// Of that node's pGPU, by its place among them: bytes.
  std::uint64_t free_with_nothing_kept(std::size_t node,
                                       std::size_t pgpu) const;
  std::pair<std::uint64_t, spot> free_key(const spot& x) const;
  /// Calls `f(set, key)` for those pGPUs of the node that are offered, in each
  /// shelf; `only`: where these alone have changed.
  template <class F>
  void for_each(std::size_t node, const std::vector<std::uint32_t>* only, F f);
  /// Calls `f(spot)` for those of the place that are there.
  template <class F>
  void for_spots(const place& where, F f) const;
  /// `f(pGPU, spot)` changes those of the place, which then lie where they
  /// belong on the shelves,
  template <class F>
  void change(const place& where, F f);
  /// and by free memory as well.
  template <class F>
  void refile(const place& where, F f);
  bool has_room_at(const spot& at, const demand& what) const;
  bool has_room_on(std::size_t node, const demand& what) const;
  std::variant<place, no_place> ask_own(const demand& what) const;
  maybe choose_one(const demand& what) const;
  maybe near(const std::vector<place>& those, const demand& what) const;
  /// The nodes that its constraints name, where they name some.
  std::optional<std::vector<const node_view*>>
  named_by(const demand& what) const;
  std::vector<const node_view*> nodes_of(const std::vector<place>& x) const;
  found best_on_host(const demand& what) const;
  found best_in(const shelf& in, const demand& what) const;
  found few_in_last(const shelf& in, const demand& what, bool& all) const;
  found first_fit(const std::set<key>& among, const shelf& in,
                  const demand& what, const found& best) const;
  const node_view& node(const spot& x) const { return cluster_.nodes[x.first]; }
  const pgpu_view& pgpu(const spot& x) const {
    return cluster_.nodes[x.first].pgpus[x.second];
  }
  bool is_offered(const spot& x) const {
    return node(x).alive && pgpu(x).healthy;
  }

  cluster_view cluster_;
  std::shared_ptr<placement_policy> own_;
  std::size_t alive_ = 0;               // nodes
  std::vector<std::uint64_t> sessions_; // of each node
  /// By the strategy, and, where that would make a pGPU take too much, without.
  std::vector<shelf> shelves_;
  /// The most free memory first, as if nothing were kept.
  std::set<std::pair<std::uint64_t, spot>> by_free_;
  std::map<spot, std::uint64_t> kept_; // bytes
  std::unordered_map<std::string, std::size_t> by_name_;
  std::unordered_map<std::string, std::vector<std::size_t>> by_host_;
};

} // namespace vgpu::policy
