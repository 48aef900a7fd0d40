// The client actor: the sessions of one host's programs, towards the manager.
#pragma once

#include "actors/client/client_actor.hpp"

#include <caf/all.hpp>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace vgpu {

struct client_options {
  /// Logical name: `client/HOST-PID`.
  std::string name;
  /// The client ends when it has had no session for so long.
  std::chrono::milliseconds idle_for{5000};
  /// A program that asks for a vGPU waits so long for a manager that does not
  /// answer.
  std::chrono::milliseconds manager_patience{5000};
  /// Why there is no manager, where that is known. Every program is refused
  /// with it.
  std::string no_manager;
};

/// One program's session as the client actor sees it:
///
///   opened ──acquire/adopt──► asked ──lease──► leased ──lease (epoch+1)─┐
///     ▲                         │                ▲  └───────────────────┘
///     └── no connection ────────┴─ refusal ► over
struct client_session {
  /// Its session_client.
  session_client_actor io;
  std::shared_ptr<const session_area> area;
  /// Since when its program waits for a first lease.
  caf::actor_clock::time_point opened;
  control::program program;
  control::specification specification;
  std::optional<control::adopt> resumed;
  std::optional<control::lease> lease;
  /// Its program called while it was suspended, or it migrates: the manager is
  /// told until it grants a lease anew.
  bool wakes = false;
  /// The last order to pause it.
  control::pause_session pausing;
  /// That order was carried out, and no lease followed.
  bool paused = false;
  /// It is paused, and its worker's process was checkpointed in place of a
  /// state.
  bool process_checkpointed = false;
  /// Since when it is where it is, or, while `paused`, has no place. This and
  /// the next three are what a new manager needs for memory swapping.
  caf::actor_clock::time_point since;
  /// It was suspended so that others have room.
  bool preempted = false;
  /// How long the last suspension took, in milliseconds.
  std::uint32_t left_in_ms = 0;
  /// How long the last resumption took, in milliseconds; 0: there was none
  /// since it was suspended.
  std::uint32_t back_in_ms = 0;
  /// The acquire or adopt that waits for its answer; 0: none does.
  std::uint64_t request = 0;
};

struct client_state {
  client_state() = default;

  static constexpr const char* name = "vgpu.client";
  client_options options;
  link_actor link;
  /// Called once, when the client should end.
  std::function<void()> idle;
  /// The manager is connected.
  bool up = false;
  std::uint64_t last_request = 0;
  std::uint64_t last_key = 0;
  /// The sessions, by numbers of the client's own.
  std::map<std::uint64_t, client_session> sessions;
  std::uint64_t idle_round = 0;
};

/// Implements a host's client, which says everything to the manager by `link`.
client_actor::behavior_type
client(client_actor::stateful_pointer<client_state> self,
       client_options options, link_actor link, std::function<void()> idle);

} // namespace vgpu
