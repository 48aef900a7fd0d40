#pragma once

#include "policies/views.hpp"

#include <optional>
#include <string>
#include <variant>

namespace vgpu::policy {

/// Why nothing fits now, for a person.
struct no_place {
  std::string why;
};

/// Where to run `what`: pGPUs of one node that is alive, each healthy and with
/// the memory to reserve. Of those, in this order: not where it failed of
/// late, where it was before, on its program's host, where the fewest shares
/// and sessions are, where most memory is free, and then by name, so that the
/// same cluster always gives the same answer. Where it failed is still taken
/// when there is nothing else.
std::variant<place, no_place> choose_place(const cluster_view& cluster,
                                           const demand& what);

/// The pGPUs to keep for `what`, which has no place now: of those that it could
/// have if nobody had reserved memory there, the ones that lack least. Nothing
/// where no node could ever take it.
std::optional<place> place_to_keep(const cluster_view& cluster,
                                   const demand& what);

/// The cluster with nothing left to reserve at these pGPUs.
void keep(cluster_view& cluster, const place& where);

} // namespace vgpu::policy
