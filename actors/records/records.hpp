// What the manager knows of each node and session.
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

/// A node that has registered, or that the store says should come back.
struct node_record {
  /// Where a node is in its life.
  ///
  ///     expected ─── registers ───► alive ─── says goodbye ───► left
  ///        │                         │ ▲                          │
  ///        │     silent, or its ─────┤ └───── registers again ────┤
  ///        │     connection closed   ▼                            │
  ///        └─ does not come back ─► lost ─────────────────────────┘
  enum class stage {
    /// The store names it; it has not come back since the manager's restart.
    expected,
    /// It has registered, and is heard.
    alive,
    /// It was silent for too long, or its connection ended.
    lost,
    /// It said goodbye.
    left
  };

  /// What the node registered, without its sessions.
  control::register_node info;
  /// Its connection.
  std::string peer;
  /// It takes no sessions.
  bool draining = false;
  stage state = stage::expected;
  policy::sightings seen;
  /// When an expected node counts as lost.
  time_point expected_until;
};

/// Where a session is in its life.
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
  /// It has no worker and wants one.
  waiting,
  /// A node was ordered to start its worker.
  starting,
  /// Its worker serves it, as far as the manager knows.
  running,
  /// No worker serves it, until its program calls or a command resumes it. Its
  /// state is with its client, or in a checkpointed worker.
  suspended
};

/// The texts of a session's stages, in the status and in the store.
inline constexpr enum_names<session_stage, 4> session_stage_names{{
    {session_stage::waiting, "waiting"},
    {session_stage::starting, "placing"},
    {session_stage::running, "running"},
    {session_stage::suspended, "suspended"},
}};
static_assert(is_complete(session_stage_names, session_stage::suspended));

/// The texts of a node's stages, in the status.
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

/// A movement that is under way for a session: it is suspended, resumed, or
/// migrated to another place.
struct session_movement {
  enum class kind { suspend, resume, migrate };
  /// How far a movement is.
  ///
  ///     preparing ──► pausing ──► restoring ──► done
  enum class phase {
    /// A worker opens its devices where the session is to go.
    preparing,
    /// The session's client was asked to pause it and to take its state.
    pausing,
    /// The state is taken; the session waits for a worker that restores it.
    restoring
  };

  kind what = kind::migrate;
  /// It stays suspended until it is resumed by name.
  bool hold = false;
  /// It is suspended because it does nothing.
  bool idle = false;
  /// The session for which this one leaves its memory; 0: none.
  session_id for_whom{};
  /// Where the session was when the movement began.
  policy::place from{};
  /// Where it is to go; unset: wherever there is room.
  std::optional<policy::place> target{};
  /// Why the balancer moves it; empty: the balancer does not.
  std::string why{};
  phase at = phase::pausing;
  /// Why a worker that was to restore the state did not; empty: none failed.
  std::string loss{};
  /// Until when the client, or the worker that is prepared, may answer.
  time_point until{};
  /// The command's connection, which waits for the outcome.
  std::string peer{};
  /// The command's request number; 0: no command waits.
  std::uint64_t request = 0;

  /// Whether the session's state has left its worker.
  bool state_taken() const noexcept { return at == phase::restoring; }
};

/// How much a session works, from the balancer's samples.
struct measured_load {
  /// When the last sample was taken; unset: the session did not run then.
  std::optional<time_point> since;
  /// The devices' work for it until then, in nanoseconds.
  std::uint64_t device_ns = 0;
  /// The part of the time between the last two samples in which devices worked
  /// for it.
  std::optional<double> used;
  /// policy::load_of(), smoothed over the last few samples.
  std::optional<double> load;
};

/// What a session takes of a place, as the capacity index has counted it.
struct counted_place {
  policy::place where;
  /// Bytes a device.
  std::uint64_t memory = 0;
  double share = 0;
  bool operator==(const counted_place&) const = default;
};

/// When a session got its memory, and what swapping it out and in took. Only
/// memory swapping decides by it (manager/swap_times.hpp).
struct swap_times {
  /// When it began to wait for memory: it came, or it was swapped out.
  time_point queued_at;
  /// When it got the memory that it has.
  time_point resident_since;
  /// How long it took the last time to swap it out.
  policy::duration out{0};
  /// How long it took the last time to swap it out and in again.
  policy::duration out_and_in{0};
  /// These times were another manager's: the session's client knows better.
  bool from_former_manager = false;
  /// The client has told `resident_since` before its worker was here.
  bool residence_known = false;
};

/// A session: what the store keeps of it, and what this manager knows besides.
struct session_record {
  // -- kept in the store ------------------------------------------------------
  session_id id;
  vgpu_id vgpu;
  /// The epoch of the latest start; 0 before the first.
  vgpu::epoch epoch;
  /// Tokens of the last few epochs, by epoch: what an adopting client must
  /// show.
  std::map<std::uint64_t, std::uint64_t> tokens;
  control::specification spec;
  control::program program;
  session_stage stage = session_stage::waiting;
  /// Where the latest start was.
  policy::place where;
  control::worker_endpoints worker;
  /// The worker's process; 0: there is none.
  std::uint32_t pid = 0;
  /// Bytes a device that its program may allocate.
  std::uint64_t quota = 0;
  /// The largest quota that it ever had, which a replay may need.
  std::uint64_t largest_quota = 0;
  /// The client's logical name.
  std::string client;
  /// Why it has the place that it has, or waits for.
  std::string reason = "first";
  bool had_lease = false;
  /// It is suspended until it is resumed by name.
  bool held = false;
  /// Its client has no state of it: its worker waits in its place as a
  /// checkpoint of itself.
  bool checkpointed = false;
  /// It was swapped out for others, and has had no place since.
  bool preempted = false;

  // -- of this manager's life -------------------------------------------------
  /// Its specification is what its client knows; its node may know better.
  bool adopted = false;
  /// The client's connection; empty while there is none.
  std::string client_peer;
  /// When it ends, unless its client comes back.
  std::optional<time_point> orphan_until;
  /// The number of the client's acquire or adopt, while that waits.
  std::uint64_t request = 0;
  policy::restart_history history;
  /// Places where its workers failed of late.
  std::vector<policy::place> failing;
  /// Before then it is not placed.
  time_point retry_at;
  /// When a worker that has not started counts as failed.
  time_point start_by;
  /// When it lost its place; unset: it has one.
  time_point displaced_at;
  /// Why it has no worker, for the status.
  std::string waiting_because;
  /// How long it may wait for its first place; unset: for ever.
  std::optional<time_point> wait_until;
  /// Its client is given the new quota when the worker knows it.
  bool quota_unannounced = false;
  control::session_load load;
  /// When its last call was, or its last work in the device ended, as far as is
  /// known.
  time_point active_at;
  /// It refused to leave its place, and is left alone until then.
  time_point rests_until;
  /// How often in a row it refused to leave its place.
  unsigned refusals = 0;
  swap_times swapping;
  measured_load measured;
  /// When it was last moved by a command or the balancer.
  std::optional<time_point> moved_at;
  /// The epoch whose worker gave its state to the client, and serves nobody.
  vgpu::epoch released_epoch{};
  /// Its worker ended in order: until then its client may say why.
  std::optional<time_point> exit_explained_by;
  /// Bytes of a suspended session's state; 0: not known.
  std::uint64_t state_bytes = 0;
  std::optional<session_movement> moving;
  /// What the capacity index has counted of it.
  std::optional<counted_place> counted;

  /// Whether it has, or is about to have, a worker.
  bool placed() const noexcept {
    return stage == session_stage::starting || stage == session_stage::running;
  }

  /// The token of the present epoch; 0 before the first start.
  std::uint64_t token() const {
    auto i = tokens.find(epoch.value);
    return i == tokens.end() ? 0 : i->second;
  }
};

} // namespace vgpu
