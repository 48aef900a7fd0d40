// What the manager knows of each node and session.
#pragma once

#include "actors/link/protocol.hpp"
#include "policies/lifecycle/liveness.hpp"
#include "policies/lifecycle/restart.hpp"
#include "policies/placement/views.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace vgpu {

using policy::time_point;

struct node_record {
  enum class stage {
    expected, // the store names it; it has not come back yet
    alive,
    lost, // silent for too long, or its connection ended
    left  // said goodbye
  };

  control::register_node info;
  std::string peer;      // its connection
  bool draining = false; // takes no sessions
  stage state = stage::expected;
  policy::sightings seen;
  time_point expected_until;
};

/// Where a session is in its life; README.md draws the states.
/// Suspended: its state is with its client, and no worker serves it.
enum class session_stage { waiting, starting, running, suspended };

const char* name_of(session_stage x) noexcept;
const char* name_of(node_record::stage x) noexcept;

/// A command that is under way for a session: its state is taken, and perhaps
/// given to another worker.
struct session_movement {
  enum class kind { suspend, resume, migrate };
  kind what = kind::migrate;
  bool hold = false;
  bool idle = false;     // to make room, while it does nothing
  session_id for_whom{}; // to make room for that one, its turn being over
  policy::place from{};
  /// Where it is to go; unset: wherever there is room.
  std::optional<policy::place> target{};
  std::string why{};     // not for a command, but to have less to do there
  bool prepares = false; // a worker opens its devices there
  bool taken = false;    // its client has the state
  std::string met{};     // why a worker that was to go on from it did not
  time_point until{};    // for its client, or the worker there, to answer
  /// Who waits for the outcome.
  std::string peer{};
  std::uint64_t request = 0;
};

/// How much a session works, as looks at it tell.
struct measured_load {
  std::optional<time_point> since; // the last look; unset: it did not run then
  std::uint64_t device_ns = 0;     // what devices had worked for it by then
  std::optional<double> used;      // the part of the time since the one before
  std::optional<double> load;      // policy::load_of(), of the last few looks
};

/// A session as placements count it.
struct counted_place {
  policy::place where;
  std::uint64_t memory = 0;
  double share = 0;
  bool operator==(const counted_place&) const = default;
};

struct session_record {
  // -- kept in the store ------------------------------------------------------
  session_id id;
  vgpu_id vgpu;
  vgpu::epoch epoch; // of the latest start; 0 before the first
  /// Tokens of the last few epochs: what an adopting client must show.
  std::map<std::uint64_t, std::uint64_t> tokens;
  control::specification spec;
  control::program program;
  session_stage stage = session_stage::waiting;
  policy::place where; // of the latest start
  control::worker_endpoints worker;
  std::uint32_t pid = 0;
  std::uint64_t quota = 0;         // bytes a device
  std::uint64_t largest_quota = 0; // ever: what a replay may need
  std::string client;              // its logical name
  std::string reason = "first";
  bool had_lease = false;
  bool held = false; // suspended until it is resumed by name
  /// It has no state: its worker waits in its place, put aside as it is.
  bool aside = false;
  /// It made room for others, and has had no place since.
  bool preempted = false;

  // -- of this manager's life -------------------------------------------------
  bool adopted = false;    // as its client knows it; its node may know better
  std::string client_peer; // its connection; empty while there is none
  std::optional<time_point> orphan_until;
  std::uint64_t request = 0; // of acquire or adopt, while it waits
  policy::restart_history history;
  std::vector<policy::place> failing;
  time_point retry_at;
  time_point start_by;
  time_point displaced_at;
  std::string waiting_because;
  std::optional<time_point> wait_until; // for its first place
  /// Its client is told the quota when the worker knows it.
  bool quota_untold = false;
  control::session_load load;
  time_point active_at;   // its last call, or work, that is known of
  time_point rests_until; // it could not be taken off its place
  // Turns with memory (manager_swapping.cpp):
  time_point queued_at;        // it came, or made room for others
  time_point resident_since;   // its turn began
  policy::duration left_in{0}; // what it took to leave, the last time,
  policy::duration swapped{0}; // and to come back as well
  bool from_before = false;    // of all that, its client knows better
  bool turn_told = false;      // when it began; its worker is not here yet
  measured_load measured;
  std::optional<time_point> moved_at; // on purpose, last
  unsigned refusals = 0;              // so often in a row
  /// Whose worker gave its state to the client, and serves nobody.
  vgpu::epoch gave_way{};
  /// Its worker ended in order; by then its client says why.
  std::optional<time_point> explained_by;
  std::uint64_t state_bytes = 0; // of a suspended one, where that is known
  std::optional<session_movement> moving;
  std::optional<counted_place> counted; // by the manager's index

  /// Whether it has, or is about to have, a worker.
  bool placed() const noexcept {
    return stage == session_stage::starting || stage == session_stage::running;
  }

  std::uint64_t token() const {
    auto i = tokens.find(epoch.value);
    return i == tokens.end() ? 0 : i->second;
  }
};

} // namespace vgpu
