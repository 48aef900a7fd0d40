// What a decision sees of the cluster: values, made for one decision.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace vgpu::policy {

/// Policies know no clock: whoever asks says what time it is.
using time_point = std::chrono::steady_clock::time_point;
using duration = std::chrono::steady_clock::duration;

struct pgpu_view {
  std::uint32_t ordinal = 0;
  std::uint64_t memory = 0;   // bytes
  std::uint64_t reserved = 0; // bytes promised to sessions that asked for them
  double shares = 0;          // sum of its sessions' shares
  std::uint32_t sessions = 0;
  bool healthy = true;
  std::string backend{};
  std::string model{};    // by name; pGPUs of two models differ to a program
  std::uint64_t held = 0; // bytes promised to sessions, or held beyond that
  std::int32_t capability = 0; // compute capability, 80 for 8.0
};

struct node_view {
  std::string name;
  std::string host;
  bool alive = true;
  std::vector<pgpu_view> pgpus;
  bool draining = false; // is to be emptied; not alive for who wants a place
};

struct cluster_view {
  std::vector<node_view> nodes;
};

/// Some pGPUs of one node.
struct place {
  std::string node;
  std::vector<std::uint32_t> pgpus;
  bool operator==(const place&) const = default;
};

/// What is to be placed.
struct demand {
  double share = 1.0;       // of one pGPU's compute, in (0, 1]
  double limit = 1.0;       // of one pGPU's compute, in (0, 1]
  std::uint64_t memory = 0; // bytes a pGPU to reserve; 0 reserves nothing
  std::uint32_t gpus = 1;
  std::string host;           // where its program runs
  place previous;             // where it was, if anywhere
  std::vector<place> failing; // where it failed of late

  // -- constraints that must be met -------------------------------------------
  std::string node;            // only there; empty: anywhere
  std::int32_t pgpu = -1;      // only this ordinal; -1: any
  std::string backend;         // empty: any
  std::int32_t capability = 0; // this one or a higher one
  enum class locality { local_first, local_only, any };
  locality where = locality::local_first;
  bool beside_somebody = false;
  std::vector<place> beside; // then, only there
  std::vector<place> apart;  // never there

  // -- a wish that is met where there is room ---------------------------------
  std::vector<place> affinity; // where others of its group are
};

} // namespace vgpu::policy
