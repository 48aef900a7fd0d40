// What a vGPU state actor is made with.
#pragma once

#include "actors/link/control_values.hpp"
#include "actors/worker/serve/dry_run.hpp"
#include "actors/worker/serve/helper.hpp"
#include "schema/base/busy_poll.hpp"
#include "schema/base/ids.hpp"

#include <chrono>
#include <cstdint>

namespace vgpu {

struct vgpu_actor_options {
  vgpu_id vgpu;
  session_id session;
  vgpu::epoch epoch;
  /// The token that a client must show.
  std::uint64_t token = 0;
  /// Where the worker listens, for whoever asks where the vGPU is.
  control::worker_endpoints endpoints;
  /// How long calls that came over the network are executed after the client
  /// was last heard: the lease's term.
  std::chrono::milliseconds lease_term{400};
  /// How long the worker lives without any client.
  std::chrono::milliseconds abandoned_after{10'000};
  /// How long one call may take before a client elsewhere no longer hears that
  /// this worker lives, and has the session taken up by another.
  std::chrono::milliseconds longest_call{120'000};
  /// Without, a session whose variables a driver placed has no state.
  begin_dry_run dry_run;
  /// Without, a session that cannot be described cannot be suspended.
  begin_gpu_move gpu_mover;
  /// How long the worker busy-polls for the next call and for the end of work
  /// where the log is mapped.
  busy_poll_limits mapped_busy_poll = poll_where_scarce;
  /// The same where calls are forwarded.
  busy_poll_limits forwarded_busy_poll;

  /// What a wake-up costs at most: with the log mapped a worker busy-polls so
  /// long also where there are few processors.
  static constexpr busy_poll_limits poll_where_scarce{
      std::chrono::microseconds{50}, std::chrono::microseconds{50}};
};

} // namespace vgpu
