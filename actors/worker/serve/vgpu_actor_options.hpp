// The options of a vGPU state actor.
#pragma once

#include "actors/link/control_values.hpp"
#include "actors/state/vgpu_actor.hpp"
#include "actors/worker/checkpoint/dry_run.hpp"
#include "actors/worker/checkpoint/helper.hpp"
#include "actors/worker/checkpoint/lent_parcel.hpp"
#include "actors/worker/checkpoint/next_preparation.hpp"
#include "actors/worker/checkpoint/session_standby.hpp"
#include "schema/base/busy_poll.hpp"
#include "schema/base/ids.hpp"

#include <chrono>
#include <cstdint>

namespace vgpu {

struct vgpu_actor_options {
  vgpu_id vgpu;
  session_id session;
  vgpu::epoch epoch;
  /// Holds the token that a client must show.
  std::uint64_t token = 0;
  /// Holds the worker's addresses, for those who ask where the vGPU is.
  control::worker_endpoints endpoints;
  /// Says how long forwarded calls are executed after the client's last
  /// message: the lease's term.
  std::chrono::milliseconds lease_term{400};
  /// Says how long the worker lives without any client.
  std::chrono::milliseconds abandoned_after{10'000};
  /// Says how long one call may take. After that a client elsewhere gets no
  /// signs of life, and another worker recovers the session.
  std::chrono::milliseconds longest_call{120'000};
  /// Limits the time for which a read waits for a snapshot while a host
  /// function or a wait for a value is open, which the program may end only
  /// behind it.
  std::chrono::milliseconds cover_within{30'000};
  /// Begins a dry run. Without it, a session with variables that a driver
  /// placed has no state.
  begin_dry_run dry_run;
  /// Passes objects on to the session's next worker. Without it, that one makes
  /// them when it restores the state.
  begin_preparation preparation;
  /// Tells the node about the session's standby. Without it there is none.
  session_standby::teller tell_of_standby{};
  /// Holds the file in which the session's former worker on this host kept a
  /// copy of its memory; may be null or empty.
  shared_file contents{};
  /// Holds the memory that the former worker lends; may be null.
  std::shared_ptr<const lent_parcel> lent{};
  /// Begins a release. Without it, a session that cannot be described cannot be
  /// suspended.
  begin_gpu_move gpu_mover;
  /// Limits busy-polling for the next call and for the end of work where the
  /// log is mapped.
  busy_poll_limits mapped_busy_poll = poll_where_scarce;
  /// Limits the same where calls are forwarded.
  busy_poll_limits forwarded_busy_poll;

  /// Is about the largest cost of a wake-up. With the log mapped, a worker
  /// busy-polls this long even on hosts with few processors.
  static constexpr busy_poll_limits poll_where_scarce{
      std::chrono::microseconds{50}, std::chrono::microseconds{50}};
};

} // namespace vgpu
