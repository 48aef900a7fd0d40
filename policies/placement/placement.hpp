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

/// Why nothing fits now, for a person.
struct no_place {
  std::string why;
};

/// What is preferred among pGPUs that are as good otherwise.
enum class placement_strategy {
  /// Where the fewest shares and sessions are, then where most memory is free.
  least_loaded,
  /// Where the most shares are that leave room for what is asked, so that other
  /// pGPUs stay empty; where none leaves room, as `least_loaded`.
  bin_pack,
  /// On the node with the fewest sessions, so that the loss of one node hurts
  /// few; there as `least_loaded`.
  spread,
};
inline constexpr std::array<std::string_view, 3> placement_strategy_names{
    "least-loaded", "bin-pack", "spread"};

/// A share as pGPUs' sums count it: rounded so that a sum does not depend on
/// its order, and what goes leaves nothing behind.
double counted_share(double share);

/// Bytes that are promised to nobody.
std::uint64_t free_of(const pgpu_view& x);

/// The order of preference; the smaller, the better.
struct placement_key {
  double rank = 0;
  double shares = 0;
  std::uint64_t sessions = 0;
  std::uint64_t not_free = 0; // grows as free memory shrinks
  auto operator<=>(const placement_key&) const = default;
};
placement_key key_of(placement_strategy how, std::uint64_t sessions_of_node,
                     const pgpu_view& pgpu);
/// Whether the pGPU would have more to do than it can, where that is to be
/// avoided.
bool is_over(placement_strategy how, const pgpu_view& pgpu, const demand& what);

/// Whether one of the pGPUs that are asked for may be this one: it is healthy,
/// has the memory, and every wish is met.
bool may_take(const node_view& node, const pgpu_view& pgpu, const demand& what);
/// The same if it were healthy.
bool may_take_healthy(const node_view& node, const pgpu_view& pgpu,
                      const demand& what);

/// Where to run `what`: pGPUs of one node that is alive, each healthy and with
/// the memory to reserve. Of those, in this order: not where it failed of
/// late, where it was before, beside others of its group, on its program's
/// host, by the strategy, and then by name, so that the same cluster always
/// gives the same answer. Where it failed is still taken when there is nothing
/// else.
std::variant<place, no_place>
choose_place(const cluster_view& cluster, const demand& what,
             placement_strategy how = placement_strategy::least_loaded);

/// The same among some nodes alone.
std::optional<place> best_place(std::span<const node_view* const> among,
                                const demand& what, placement_strategy how);
/// What choose_place() says where nothing fits.
no_place why_none(const demand& what, std::size_t nodes_alive);

/// The pGPUs to keep for `what`, which has no place now: of those that it could
/// have if nobody had reserved memory there, the ones that lack least. Nothing
/// where no node could ever take it.
std::optional<place> place_to_keep(const cluster_view& cluster,
                                   const demand& what);

/// The cluster with nothing left to reserve at these pGPUs.
void keep(cluster_view& cluster, const place& where);

} // namespace vgpu::policy
