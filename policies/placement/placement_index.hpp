// An index of the cluster for placements among very many nodes.
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

/// Gives the same answers as choose_place() without visiting every node. It
/// holds the pGPUs in order of preference, in classes of free memory. A demand
/// for one pGPU costs a few look-ups, however large the cluster is, and more
/// only where its constraints allow few pGPUs of very many. A demand for
/// several pGPUs that is not bound to a node or a host visits every node. Not
/// thread-safe.
///
/// Places that are kept for waiting demands (keep()) go to no demand for memory
/// until release_kept().
class placement_index {
public:
  /// Indexes the cluster. A plug-in's policy, if `own` is set, decides every
  /// choice.
  placement_index(cluster_view cluster, placement_strategy how,
                  std::shared_ptr<placement_policy> own = nullptr);
  placement_index(const placement_index&) = delete;
  placement_index& operator=(const placement_index&) = delete;

  /// Chooses a place for `what`, but does not take it.
  std::variant<place, no_place> choose(const demand& what) const;
  /// Records that a session with this demand is at the place.
  void take(const place& where, const demand& what);
  /// Records that a session with this demand has left the place.
  void give(const place& where, const demand& what);

  /// Does what policy::place_to_keep() does, for the cluster with nothing kept.
  std::optional<place> place_to_keep(const demand& what);
  /// Keeps these pGPUs for a waiting demand.
  void keep(const place& where);
  /// Ends the keeping of all places.
  void release_kept();

  /// Returns whether `what` had a place if nothing were kept.
  bool has_room(const demand& what) const;
  /// Returns a node of cluster() with nothing kept there.
  node_view with_nothing_kept(std::size_t node) const;
  /// Returns the named node with nothing kept there: the node itself, or a copy
  /// that it puts into `copies`. Returns null where there is no such node.
  const node_view*
  with_nothing_kept(const std::string& name,
                    std::map<std::string, node_view>& copies) const;

  /// Returns the cluster, where kept memory counts as reserved.
  const cluster_view& cluster() const noexcept { return cluster_; }

private:
  /// Names a node and one of its pGPUs by their indices.
  using spot = std::pair<std::size_t, std::size_t>;
  /// Orders the pGPUs of a shelf. The names make the order unique.
  using key = std::tuple<placement_key, std::string_view, std::uint32_t, spot>;
  /// There are four classes of free memory for each power of two.
  static constexpr auto classes = std::size_t{64} * 4;
  /// Holds the pGPUs in the order of one strategy, by class of free memory.
  struct shelf {
    placement_strategy how;
    std::array<std::set<key>, classes> by_free;
  };
  using found = std::optional<key>;
  using maybe = std::optional<place>;

  static std::size_t class_of(std::uint64_t free);
  /// Returns the smallest free memory, in bytes, that is in a higher class.
  static std::uint64_t end_of_class(std::uint64_t free);
  key key_at(const shelf& in, const spot& x) const;
  /// Returns the free bytes of a node's pGPU, by its index, with nothing kept.
  std::uint64_t free_with_nothing_kept(std::size_t node,
                                       std::size_t pgpu) const;
  std::pair<std::uint64_t, spot> free_key(const spot& x) const;
  /// Calls `f(set, key)` for the offered pGPUs of the node, in each shelf.
  /// `only` lists the ordinals that have changed.
  template <class F>
  void for_each(std::size_t node, const std::vector<std::uint32_t>* only, F f);
  /// Calls `f(spot)` for those pGPUs of the place that exist.
  template <class F>
  void for_spots(const place& where, F f) const;
  /// Calls `f(pGPU, spot)`, which changes the pGPUs of the place, and updates
  /// their positions on the shelves.
  template <class F>
  void change(const place& where, F f);
  /// Does what change() does, and also updates their order by free memory.
  template <class F>
  void refile(const place& where, F f);
  bool has_room_at(const spot& at, const demand& what) const;
  bool has_room_on(std::size_t node, const demand& what) const;
  std::variant<place, no_place> ask_own(const demand& what) const;
  maybe choose_one(const demand& what) const;
  maybe near(const std::vector<place>& those, const demand& what) const;
  /// Returns the nodes that the constraints name, or nothing where they name
  /// none.
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
  /// Counts the nodes that are alive.
  std::size_t alive_ = 0;
  /// Counts the sessions on each node.
  std::vector<std::uint64_t> sessions_;
  /// Holds the pGPUs by the strategy. A second shelf is for demands for which
  /// the strategy would overload each pGPU.
  std::vector<shelf> shelves_;
  /// Holds the pGPUs by decreasing free memory, as if nothing were kept.
  std::set<std::pair<std::uint64_t, spot>> by_free_;
  /// Holds the kept bytes.
  std::map<spot, std::uint64_t> kept_;
  std::unordered_map<std::string, std::size_t> by_name_;
  std::unordered_map<std::string, std::vector<std::size_t>> by_host_;
};

} // namespace vgpu::policy
