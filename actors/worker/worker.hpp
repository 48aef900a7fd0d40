// The actor that represents one session's worker to its node.
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
  /// Holds the logical name: `worker/SESSION`.
  std::string name;
  session_id session;
  std::chrono::milliseconds beat_every{100};
  /// Says how the session's present worker reaches this one before its orders
  /// come, if this one can compile modules ahead.
  next_worker next{};
  /// Is called once, on a thread of the actor system, when the link to the node
  /// is up. May be empty.
  std::function<void()> on_connected{};
  /// Takes the public key of the session's client, and the one that it had
  /// before and that stays good, on such a thread. May be empty.
  std::function<void(const std::string&, const std::string& former)>
      on_client_key{};
};

struct worker_state {
  worker_state() = default;

  static constexpr const char* name = "vgpu.worker";
  worker_options options;
  link_actor link;
  /// Is null until the worker's orders have come.
  vgpu_actor vgpu;
  /// Holds where the vGPU is, once the vGPU has answered.
  std::optional<vgpu_place> at;
  std::shared_ptr<session_gauges> gauges;
  /// Holds the answer that waits for the end of standbys, if one does.
  std::optional<caf::typed_response_promise<bool>> in_the_way;
  std::function<void()> node_gone;
  bool connected = false;
};

/// Implements the worker's actor. It reports to the node that the devices are
/// open. When its orders have come, it asks the vGPU where it is, sends the
/// node its hello, and then reports the session's progress with every
/// heartbeat. It passes on quotas, injected faults and news of the standby. It
/// calls `node_gone` when the node's process is gone.
worker_actor::behavior_type
worker(worker_actor::stateful_pointer<worker_state> self,
       worker_options options, link_actor link,
       std::shared_ptr<session_gauges> gauges, std::function<void()> node_gone);

} // namespace vgpu
