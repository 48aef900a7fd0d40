// A policy's view of the cluster: plain values, made for one decision.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace vgpu::policy {

/// Policies have no clock, so their callers pass the time.
using time_point = std::chrono::steady_clock::time_point;
using duration = std::chrono::steady_clock::duration;

/// Describes a pGPU and what is promised of it.
struct pgpu_view {
  std::uint32_t ordinal = 0;
  /// Holds the device's memory, in bytes.
  std::uint64_t memory = 0;
  /// Counts the bytes that are promised to sessions that asked for them.
  std::uint64_t reserved = 0;
  /// Holds the sum of its sessions' shares.
  double shares = 0;
  std::uint32_t sessions = 0;
  bool healthy = true;
  std::string backend{};
  /// Holds the name of its model. A program can tell pGPUs of two models apart.
  std::string model{};
  /// Counts the bytes that are promised to sessions, or held beyond that.
  std::uint64_t held = 0;
  /// Holds the compute capability, such as 80 for 8.0.
  std::int32_t capability = 0;
};

/// Describes a node and its pGPUs.
struct node_view {
  std::string name;
  std::string host;
  bool alive = true;
  std::vector<pgpu_view> pgpus;
  /// Tells whether the node is to be emptied. Placements treat it as not alive.
  bool draining = false;
};

/// Describes the nodes of a cluster.
struct cluster_view {
  std::vector<node_view> nodes;
};

/// Describes some pGPUs of one node.
struct place {
  std::string node;
  std::vector<std::uint32_t> pgpus;
  bool operator==(const place&) const = default;
};

/// Describes the demand of a session for a place.
struct demand {
  /// Is a part of one pGPU's compute, in (0, 1].
  double share = 1.0;
  /// Is a part of one pGPU's compute, in (0, 1].
  double limit = 1.0;
  /// Holds the bytes to reserve on each pGPU. 0 reserves nothing.
  std::uint64_t memory = 0;
  std::uint32_t gpus = 1;
  /// Names the program's host.
  std::string host;
  /// Holds the session's previous place, if any.
  place previous;
  /// Holds the places where the session failed recently.
  std::vector<place> failing;

  // -- constraints that must be met -------------------------------------------
  /// Allows this node only. Empty: any node.
  std::string node;
  /// Allows this ordinal only. -1: any.
  std::int32_t pgpu = -1;
  /// Allows this backend only. Empty: any.
  std::string backend;
  /// Allows this compute capability and higher ones.
  std::int32_t capability = 0;
  /// Says whether the program's host is preferred, required or irrelevant.
  enum class locality { local_first, local_only, any };
  locality where = locality::local_first;
  bool beside_somebody = false;
  /// Allows these places only, if beside_somebody is set.
  std::vector<place> beside;
  /// Forbids these places.
  std::vector<place> apart;

  // -- a preference, met where there is room ----------------------------------
  /// Holds the places of others of its group.
  std::vector<place> affinity;
};

} // namespace vgpu::policy
