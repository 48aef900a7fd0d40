// What `vgpu status` shows.
#pragma once

#include "actors/manager/cluster/accounts.hpp"
#include "actors/manager/cluster/cluster_state.hpp"
#include "actors/manager/cluster/manager_clock.hpp"
#include "actors/manager/cluster/manager_options.hpp"
#include "actors/manager/cluster/outbox.hpp"
#include "actors/manager/cluster/peer_registry.hpp"
#include "actors/manager/cluster/term_numbers.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vgpu {

/// Describes a pGPU in the status.
struct status_pgpu {
  std::uint32_t ordinal = 0;
  std::string backend;
  std::string name;
  std::uint64_t memory = 0;
  control::pgpu_health state{};
  std::string policy;
  std::uint32_t quantum_us = 0;
};

/// Describes a node in the status.
struct status_node {
  std::string name;
  std::string host;
  std::uint32_t pid = 0;
  node_record::stage state{};
  bool draining = false;
  std::vector<status_pgpu> pgpus;
  std::string sandbox{};
  bool insecure_network = false;
};

/// Holds a copy of all that the status shows. Composing a large cluster's
/// status takes long, and the manager hears nobody meanwhile, so another actor
/// does it with this copy.
struct status_view {
  std::string endpoint;
  bool insecure_network = false;
  std::string placement;
  std::uint64_t incarnation = 0;
  std::uint64_t term = 0;
  bool nodes_may_come = false;
  double uptime = 0; // seconds
  std::uint64_t last_event = 0;
  std::uint32_t pid = 0;
  std::vector<status_node> nodes;
  /// Holds the sessions in the order of their numbers, with their accounts.
  std::vector<std::pair<session_record, control::usage>> sessions;
};
using status_view_ptr = std::shared_ptr<const status_view>;

/// Returns the status as `vgpu status --json` prints it.
std::string to_json(const status_view& x);

/// Copies what the status shows. It changes nothing. Not thread-safe.
class status_report {
public:
  status_report(const manager_options& options, const manager_clock& clock,
                const cluster_state& state, const outbox& out,
                const accounts& books, const term_numbers& numbers,
                const peer_registry& peers);
  status_report(const status_report&) = delete;
  status_report& operator=(const status_report&) = delete;

  /// Copies all, or what a tenant may see: its own sessions, and of nodes and
  /// the manager what it needs to choose a node.
  status_view_ptr
  view(const std::optional<std::string>& only = std::nullopt) const;

private:
  const manager_options& options_;
  const manager_clock& clock_;
  const cluster_state& state_;
  const outbox& out_;
  const accounts& accounts_;
  const term_numbers& numbers_;
  const peer_registry& peers_;
};

} // namespace vgpu
