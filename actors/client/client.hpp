// The client actor: the sessions of one host's programs, towards the manager.
#pragma once

#include "actors/client/session_client.hpp"
#include "actors/link/link.hpp"

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
  /// With no session for so long, the client ends.
  std::chrono::milliseconds idle_for{5000};
  /// A program that asks for a vGPU waits so long for a manager that does not
  /// answer.
  std::chrono::milliseconds manager_patience{5000};
  /// Why there is no manager, where that is known: every program is told.
  std::string no_manager;
};

/// One program's session as its client sees it:
///
///   opened ──acquire/adopt──► asked ──lease──► leased ──lease (epoch+1)─┐
///     ▲                         │                ▲  └───────────────────┘
///     └── no connection ────────┴─ refusal ► over
struct client_session {
  caf::actor io; // its session_client
  std::shared_ptr<const session_area> area;
  caf::actor_clock::time_point opened; // since then it waits for its lease
  control::program program;
  control::specification specification;
  std::optional<control::adopt> resumed;
  std::optional<control::lease> lease;
  /// Its program called while it was suspended, or it was to go on elsewhere:
  /// the manager is told until it grants a lease anew.
  bool wakes = false;
  /// Of the last order to take its state; and whether that was done, and
  /// nothing came of it since.
  control::pause_session pausing;
  bool paused = false;
  // Its turns with memory, for the next manager:
  caf::actor_clock::time_point since; // it came where it is, or left its place
  bool preempted = false;             // it left for others
  std::uint32_t left_in_ms = 0;       // the last time,
  std::uint32_t back_in_ms = 0;       // and came back
  bool aside = false;        // there is no state: its worker waits as it is
  std::uint64_t request = 0; // the acquire or adopt that waits for its answer
};

struct client_state {
  client_state() = default;

  static constexpr const char* name = "vgpu.client";
  client_options options;
  caf::actor link;
  std::function<void()> idle; // called once, when the client should end
  bool up = false;            // the manager is connected
  std::uint64_t last_request = 0;
  std::uint64_t last_key = 0;
  std::map<std::uint64_t, client_session> sessions; // by a key of our own
  std::uint64_t idle_round = 0;
};

/// Takes, from session_client actors: (caf::actor, guest_opened_ptr) and
/// control_body_ptr, or (caf::actor, guest_watches_ptr), answered with
/// watched_ptr; from the link: incoming_ptr and link_event_ptr. Sends the
/// link outgoing_ptr, and session_clients lease_ptr and refusal_ptr.
caf::behavior client(caf::stateful_actor<client_state>* self,
                     client_options options, caf::actor link,
                     std::function<void()> idle);

} // namespace vgpu
