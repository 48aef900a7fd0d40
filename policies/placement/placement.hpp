#pragma once

#include "policies/placement/views.hpp"

#include <array>
#include <compare>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace vgpu::policy {

/// Says why nothing fits now, for a person.
struct no_place {
  std::string why;
};

/// Names the preference among pGPUs that are otherwise equally good.
enum class placement_strategy {
  /// Prefers the pGPU with the fewest shares and sessions, and then with the
  /// most free memory.
  least_loaded,
  /// Prefers the pGPU with the most shares that still has room for the demand,
  /// so that other pGPUs stay empty. Where none has room, as `least_loaded`.
  bin_pack,
  /// Prefers the node with the fewest sessions, so that the loss of a node
  /// affects few. Within the node, as `least_loaded`.
  spread,
};
inline constexpr std::array<std::string_view, 3> placement_strategy_names{
    "least-loaded", "bin-pack", "spread"};

/// Rounds a share for the sums of pGPUs, so that a sum does not depend on its
/// order and returns to 0 when all sessions have left.
double counted_share(double share);

/// Returns the bytes that are promised to no session.
std::uint64_t free_of(const pgpu_view& x);

/// Describes the order of preference; the smaller, the better.
struct placement_key {
  double rank = 0;
  double shares = 0;
  std::uint64_t sessions = 0;
  /// Is the complement of the free memory.
  std::uint64_t not_free = 0;
  auto operator<=>(const placement_key&) const = default;
};
/// Returns the preference of a pGPU on a node with so many sessions.
placement_key key_of(placement_strategy how, std::uint64_t sessions_of_node,
                     const pgpu_view& pgpu);
/// Returns whether the demand would give the pGPU more work than it can do,
/// under a strategy that avoids that.
bool is_over(placement_strategy how, const pgpu_view& pgpu, const demand& what);

/// Returns whether this pGPU can be one of those that `what` demands: it is
/// healthy, has the memory and meets every constraint.
bool may_take(const node_view& node, const pgpu_view& pgpu, const demand& what);
/// Does the same for a pGPU that is assumed to be healthy.
bool may_take_healthy(const node_view& node, const pgpu_view& pgpu,
                      const demand& what);

/// Chooses pGPUs for `what` on one node that is alive. Each is healthy and has
/// the memory to reserve. Among those it prefers, in this order: a pGPU where
/// the session has not failed recently, its previous place, a place beside
/// others of its group, its program's host, the strategy's choice, and then
/// names, so that the same cluster always gives the same answer. A pGPU where
/// it failed is taken when there is no other.
std::variant<place, no_place>
choose_place(const cluster_view& cluster, const demand& what,
             placement_strategy how = placement_strategy::least_loaded);

/// Does the same among some nodes only.
std::optional<place> best_place(std::span<const node_view* const> among,
                                const demand& what, placement_strategy how);
/// Returns what choose_place() says where nothing fits.
no_place why_none(const demand& what, std::size_t nodes_alive);

/// Returns the pGPUs to keep for `what`, which has no place now: among those
/// that it could have if no memory were reserved there, the ones that lack
/// least. Returns nothing where no node could ever take it.
std::optional<place> place_to_keep(const cluster_view& cluster,
                                   const demand& what);

/// Marks all memory of these pGPUs as reserved.
void keep(cluster_view& cluster, const place& where);

} // namespace vgpu::policy
