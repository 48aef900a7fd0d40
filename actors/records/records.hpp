// The manager's records of nodes and sessions.
#pragma once

#include "actors/link/protocol.hpp"
#include "policies/lifecycle/liveness.hpp"
#include "policies/lifecycle/restart.hpp"
#include "policies/placement/views.hpp"
#include "schema/base/enum_names.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace vgpu {

using policy::time_point;

/// Describes a node that has registered, or that the store expects back.
struct node_record {
  /// Says where a node is in its life.
  ///
  ///     expected ─── registers ───► alive ─── says goodbye ───► left
  ///        │                         │ ▲                          │
  ///        │     silent, or its ─────┤ └───── registers again ────┤
  ///        │     connection closed   ▼                            │
  ///        └─ does not come back ─► lost ─────────────────────────┘
  enum class stage {
    /// It is in the store, and has not come back since the manager's restart.
    expected,
    /// It has registered, and sends heartbeats.
    alive,
    /// It was silent for too long, or its connection closed.
    lost,
    /// It said goodbye.
    left
  };

  /// Holds what the node registered, without its sessions.
  control::register_node info;
  /// Holds the name of its connection.
  std::string peer;
  /// Tells whether it is drained, and takes no sessions.
  bool draining = false;
  stage state = stage::expected;
  policy::sightings seen;
  /// Says when an expected node counts as lost.
  time_point expected_until;
};

/// Says where a session is in its life.
///
///   acquire                          adopt: its client has its state
///      │                                        │
///      ▼        a place is found                ▼
///   waiting ───────────────────► starting   suspended
///    │ ▲ ▲                        │    │       ▲ │
///    │ │ └─────── worker failed ──┘    │       │ │ its program calls, or a
///    │ │                 worker started│       │ │ command resumes it
///    │ │                               ▼       │ └──────────────► waiting
///    │ └─ worker or node lost, ──── running ───┘
///    │    or paused to migrate       ▲   ▲     paused to suspend
///    └───────────────────────────────┘   └── adopt: its node runs it
///      its checkpointed worker resumes
///
/// Every state ends when the client closes the session, when the client stays
/// away for longer than its grace, or when the session is given up.
enum class session_stage {
  /// It has no worker and waits for a place.
  waiting,
  /// The manager ordered a node to start its worker.
  starting,
  /// Its worker serves it, as far as the manager knows.
  running,
  /// No worker serves it until its program calls or a command resumes it. Its
  /// state is with its client, or in a checkpointed worker.
  suspended
};

/// Holds the texts of a session's stages, in the status and in the store.
inline constexpr enum_names<session_stage, 4> session_stage_names{{
    {session_stage::waiting, "waiting"},
    {session_stage::starting, "placing"},
    {session_stage::running, "running"},
    {session_stage::suspended, "suspended"},
}};
static_assert(is_complete(session_stage_names, session_stage::suspended));

/// Holds the texts of a node's stages, in the status.
inline constexpr enum_names<node_record::stage, 4> node_stage_names{{
    {node_record::stage::expected, "expected"},
    {node_record::stage::alive, "alive"},
    {node_record::stage::lost, "lost"},
    {node_record::stage::left, "left"},
}};
static_assert(is_complete(node_stage_names, node_record::stage::left));

constexpr const char* name_of(session_stage x) noexcept {
  return text_in(session_stage_names, x);
}
constexpr const char* name_of(node_record::stage x) noexcept {
  return text_in(node_stage_names, x);
}

/// Describes a movement of a session: it is suspended, resumed or migrated.
struct session_movement {
  enum class kind { suspend, resume, migrate };
  /// Says how far a movement is.
  ///
  ///     preparing ──► pausing ──► restoring ──► done
  enum class phase {
    /// A worker opens its devices at the target.
    preparing,
    /// The manager asked the session's client to pause it and to take its
    /// state.
    pausing,
    /// The state is taken. The session waits for a worker that restores it.
    restoring
  };

  kind what = kind::migrate;
  /// Tells whether it stays suspended until a command resumes it.
  bool hold = false;
  /// Tells whether it is suspended because it is idle.
  bool idle = false;
  /// Names the session for which it leaves its memory; 0: none.
  session_id for_whom{};
  /// Holds the place of the session when the movement began.
  policy::place from{};
  /// Holds the target; unset: wherever there is room.
  std::optional<policy::place> target{};
  /// Says how the prepared worker at the target is reached from its own host.
  next_worker next{};
  /// Says why the balancer moves it; empty: another part ordered it.
  std::string why{};
  phase at = phase::pausing;
  /// Says why a worker failed to restore the state; empty: none failed.
  std::string loss{};
  /// Says until when the client, or the prepared worker, may answer.
  time_point until{};
  /// Names the connection of the command that waits for the outcome.
  std::string peer{};
  /// Holds the command's request number; 0: no command waits.
  std::uint64_t request = 0;

  /// Returns whether the session's state has left its worker.
  bool state_taken() const noexcept { return at == phase::restoring; }
};

/// Holds how much a session works, from the balancer's samples.
struct measured_load {
  /// Says when the last sample was taken; unset: the session did not run then.
  std::optional<time_point> since;
  /// Holds the devices' total work for it at the last sample, in nanoseconds.
  std::uint64_t device_ns = 0;
  /// Holds the part of the time between the last two samples in which devices
  /// worked for it.
  std::optional<double> used;
  /// Holds policy::load_of(), smoothed over the last few samples.
  std::optional<double> load;
};

/// Holds what a session takes of a place, as the capacity index has counted it.
struct counted_place {
  policy::place where;
  /// Holds the bytes of memory on each device.
  std::uint64_t memory = 0;
  double share = 0;
  bool operator==(const counted_place&) const = default;
};

/// Holds when a session got its memory, and how long swapping it out and in
/// took. Only memory swapping uses it (manager/swap_times.hpp).
struct swap_times {
  /// Says when it began to wait for memory: it was new, or was swapped out.
  time_point queued_at;
  /// Says when it got its present memory.
  time_point resident_since;
  /// Says how long the last swap-out took.
  policy::duration out{0};
  /// Says how long the last swap-out and the following swap-in took together.
  policy::duration out_and_in{0};
  /// Tells whether an earlier manager measured these times. Then the client's
  /// report replaces them.
  bool from_former_manager = false;
  /// Tells whether the client reported `resident_since` before its worker ran.
  bool residence_known = false;
};

/// Describes a session: the members that the store keeps, and those of this
/// manager's life.
struct session_record {
  // -- kept in the store ------------------------------------------------------
  session_id id;
  vgpu_id vgpu;
  /// Holds the epoch of the latest start; 0 before the first.
  vgpu::epoch epoch;
  /// Holds the tokens of the last few epochs, by epoch. An adopting client must
  /// send the right one.
  std::map<std::uint64_t, std::uint64_t> tokens;
  control::specification spec;
  control::program program;
  session_stage stage = session_stage::waiting;
  /// Holds the place of the latest start.
  policy::place where;
  control::worker_endpoints worker;
  /// Holds the worker's process number; 0: there is none.
  std::uint32_t pid = 0;
  /// Holds the bytes on each device that its program may allocate.
  std::uint64_t quota = 0;
  /// Holds the largest quota that it ever had, which a replay may need.
  std::uint64_t largest_quota = 0;
  /// Holds the client's logical name.
  std::string client;
  /// Names whose quota it counts against; empty: an earlier release kept it,
  /// and the next client that adopts it tells.
  std::string tenant;
  /// Holds the key that the client proved, by which its worker knows the
  /// client; empty: it proved none.
  std::string client_key;
  /// Holds the key that it had when it got the lease of this epoch. Its
  /// connection to the worker keeps it, also when the client renews its key.
  std::string lease_key;
  /// Says why it has its place or waits for one.
  std::string reason = "first";
  bool had_lease = false;
  /// Tells whether it is suspended until a command resumes it.
  bool held = false;
  /// Tells whether its worker's process is checkpointed, so that its client has
  /// no state of it.
  bool checkpointed = false;
  /// Tells whether it was swapped out for others, and has had no place since.
  bool preempted = false;

  // -- of this manager's life -------------------------------------------------
  /// Tells whether its specification comes from its client. Its node may know a
  /// newer one.
  bool adopted = false;
  /// Names the client's connection; empty: there is none.
  std::string client_peer;
  /// Says when it ends unless its client comes back.
  std::optional<time_point> orphan_until;
  /// Holds the number of the client's unanswered acquire or adopt.
  std::uint64_t request = 0;
  policy::restart_history history;
  /// Holds the places where its workers failed recently.
  std::vector<policy::place> failing;
  /// Says before when it is not placed.
  time_point retry_at;
  /// Says when a worker that has not started counts as failed.
  time_point start_by;
  /// Says when it lost its place; unset: it has one.
  time_point displaced_at;
  /// Says why it has no worker, for the status.
  std::string waiting_because;
  /// Says how long it may wait for its first place; unset: without limit.
  std::optional<time_point> wait_until;
  /// Tells whether its client gets new terms once it is served and the worker
  /// has its quota.
  bool terms_unannounced = false;
  /// Says in what time it recovers where that is not the promised one, as its
  /// client tells; empty: as promised.
  std::string recovers;
  /// Says who serves touches of managed memory, as its client tells; empty: it
  /// has used none.
  std::string touches;
  control::session_load load;
  /// Says when its last call was, or when its last known work in the device
  /// ended.
  time_point active_at;
  /// Says until when it is not asked to leave its place, because it refused.
  time_point rests_until;
  /// Counts how often in a row it refused to leave its place.
  unsigned refusals = 0;
  swap_times swapping;
  measured_load measured;
  /// Says when a command or the balancer last moved it.
  std::optional<time_point> moved_at;
  /// Holds the epoch whose worker was released, after it gave its state to the
  /// client.
  vgpu::epoch released_epoch{};
  /// Says until when its client may explain why its worker ended in order.
  std::optional<time_point> exit_explained_by;
  /// Holds the bytes of a suspended session's state; 0: unknown.
  std::uint64_t state_bytes = 0;
  std::optional<session_movement> moving;
  /// Holds what the capacity index has counted of it.
  std::optional<counted_place> counted;

  /// Returns whether it has a worker, or one is being started.
  bool placed() const noexcept {
    return stage == session_stage::starting || stage == session_stage::running;
  }

  /// Returns the token of the present epoch; 0 before the first start.
  std::uint64_t token() const {
    auto i = tokens.find(epoch.value);
    return i == tokens.end() ? 0 : i->second;
  }
};

} // namespace vgpu
