// The client actor, which represents the sessions of one host's programs to the
// manager.
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
  /// Holds the logical name: `client/HOST-PID`.
  std::string name;
  /// Says after how long without a session the client ends.
  std::chrono::milliseconds idle_for{5000};
  /// Says how long a program that asks for a vGPU waits for a silent manager.
  std::chrono::milliseconds manager_patience{5000};
  /// Says why there is no manager, if that is known. The client then refuses
  /// every program with it.
  std::string no_manager;
};

/// Describes one program's session as the client actor sees it:
///
///   opened ──acquire/adopt──► asked ──lease──► leased ──lease (epoch+1)─┐
///     ▲                         │                ▲  └───────────────────┘
///     └── no connection ────────┴─ refusal ► over
struct client_session {
  /// Handles the session_client.
  session_client_actor io;
  std::shared_ptr<const session_area> area;
  /// Says since when its program waits for a first lease.
  caf::actor_clock::time_point opened;
  control::program program;
  control::specification specification;
  std::optional<control::adopt> resumed;
  std::optional<control::lease> lease;
  /// Tells that its program called while it was suspended, or that it migrates.
  /// The client reports this to each manager until one grants a new lease.
  bool wakes = false;
  /// Holds the last order to pause it.
  control::pause_session pausing;
  /// Tells that the order was carried out, and that no lease followed.
  bool paused = false;
  /// Tells that it is paused, and that its worker's process was checkpointed in
  /// place of a state.
  bool process_checkpointed = false;
  /// Says since when it has its place or, while `paused`, has none. A new
  /// manager needs this and the next three for memory swapping.
  caf::actor_clock::time_point since;
  /// Tells that it was suspended to make room for others.
  bool preempted = false;
  /// Holds how long the last suspension took, in milliseconds.
  std::uint32_t left_in_ms = 0;
  /// Holds how long the last resumption took, in milliseconds; 0: it was not
  /// resumed since it was suspended.
  std::uint32_t back_in_ms = 0;
  /// Numbers the unanswered acquire or adopt; 0: there is none.
  std::uint64_t request = 0;
};

struct client_state {
  client_state() = default;

  static constexpr const char* name = "vgpu.client";
  client_options options;
  link_actor link;
  /// Is called once, when the client should end.
  std::function<void()> idle;
  /// Tells whether the manager is connected.
  bool up = false;
  std::uint64_t last_request = 0;
  std::uint64_t last_key = 0;
  /// Holds the sessions, by numbers of the client's own.
  std::map<std::uint64_t, client_session> sessions;
  std::uint64_t idle_round = 0;
};

/// Implements a host's client, which sends all its messages to the manager over
/// `link`.
client_actor::behavior_type
client(client_actor::stateful_pointer<client_state> self,
       client_options options, link_actor link, std::function<void()> idle);

} // namespace vgpu
