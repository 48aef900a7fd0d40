// The worker actor: one session's worker towards its node.
#pragma once

#include "actors/worker/serve/vgpu_state_actor.hpp"
#include "actors/worker/worker_actor.hpp"

#include <caf/all.hpp>

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace vgpu {

struct worker_options {
  /// Logical name: `worker/SESSION`.
  std::string name;
  session_id session;
  std::chrono::milliseconds beat_every{100};
};

struct worker_state {
  worker_state() = default;

  static constexpr const char* name = "vgpu.worker";
  worker_options options;
  link_actor link;
  /// Holds null until the worker's orders have come.
  vgpu_actor vgpu;
  /// Says where the vGPU is, once the vGPU has said it.
  std::optional<vgpu_place> at;
  std::shared_ptr<session_gauges> gauges;
  std::function<void()> node_gone;
  bool connected = false;
};

/// Tells the node that its devices are open, or, when its orders have come,
/// asks the vGPU where it is and says hello from there, then how far the
/// session is with every beat; passes quotas and injected faults on. Calls
/// `node_gone` when the node's process is no more.
worker_actor::behavior_type
worker(worker_actor::stateful_pointer<worker_state> self,
       worker_options options, link_actor link,
       std::shared_ptr<session_gauges> gauges, std::function<void()> node_gone);

} // namespace vgpu
