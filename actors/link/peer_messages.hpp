// What peers of the control plane say about their connection, and what the
// command line asks (schema/wire/wire.capnp).
#pragma once

#include "actors/link/control_values.hpp"

namespace vgpu::control {

inline constexpr std::uint16_t protocol_version = 1;
inline constexpr std::uint16_t oldest_version = 1;

// -- connections --------------------------------------------------------------

/// Refuses a request. `code` is a CUresult where the program has to learn of
/// it. `session` is set where the refusal comes unasked and ends that session.
struct refusal {
  CUresult code = CUDA_SUCCESS;
  std::string reason;
  session_id session;
  bool operator==(const refusal&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.code, WIRE_MEMBER(Code));
    f(x.reason, WIRE_MEMBER(Reason));
    f(x.session, WIRE_MEMBER(Session));
  }
};

/// What a peer is.
enum class role : std::uint16_t { node, client, worker, command };

/// The first message of a connection, from the peer that connects.
struct hello {
  std::uint16_t oldest = oldest_version;
  std::uint16_t newest = protocol_version;
  std::string software;
  role as = role::command;
  bool operator==(const hello&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.oldest, WIRE_MEMBER(Oldest));
    f(x.newest, WIRE_MEMBER(Newest));
    f(x.software, WIRE_MEMBER(Software));
    f(x.as, WIRE_MEMBER(Role));
  }
};

/// The answer to hello, of the manager that leads.
struct welcome {
  std::uint16_t version = protocol_version;
  std::string software;
  std::uint64_t incarnation = 0;
  std::uint32_t beat_every_ms = 100;
  std::uint32_t lost_after_ms = 500;
  std::uint64_t term = 0; // 0: there is one manager, and it leads always
  bool operator==(const welcome&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.version, WIRE_MEMBER(Version));
    f(x.software, WIRE_MEMBER(Software));
    f(x.incarnation, WIRE_MEMBER(Incarnation));
    f(x.beat_every_ms, WIRE_MEMBER(BeatEveryMs));
    f(x.lost_after_ms, WIRE_MEMBER(LostAfterMs));
    f(x.term, WIRE_MEMBER(Term));
  }
};

/// A manager that does not lead (any more) says this. It says welcome when it
/// does.
struct redirect {
  std::string leader; // its endpoint; empty: nobody that is known of
  std::uint64_t term = 0;
  bool operator==(const redirect&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.leader, WIRE_MEMBER(Leader));
    f(x.term, WIRE_MEMBER(Term));
  }
};

/// The answer to a request that has nothing else to say.
struct done {
  bool operator==(const done&) const = default;

  static void fields(auto&, auto&&) {}
};

/// From a command: end. From a node: it leaves, and its sessions move at once.
struct shutdown {
  bool operator==(const shutdown&) const = default;

  static void fields(auto&, auto&&) {}
};

// -- questions ----------------------------------------------------------------

/// Asks for status_text.
struct status_request {
  bool operator==(const status_request&) const = default;

  static void fields(auto&, auto&&) {}
};

/// A status as JSON, as `vgpu status --json` prints it.
struct status_text {
  std::string json;
  bool operator==(const status_text&) const = default;

  static void fields(auto& x, auto&& f) { f(x.json, WIRE_MEMBER(Status)); }
};

/// Asks for events.
struct events_request {
  std::uint64_t after = 0;   // only events with a greater number
  std::uint32_t wait_ms = 0; // how long to wait for one
  bool operator==(const events_request&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.after, WIRE_MEMBER(After));
    f(x.wait_ms, WIRE_MEMBER(WaitMs));
  }
};

/// The answer to events_request.
struct events {
  std::vector<event> list;
  bool operator==(const events&) const = default;

  static void fields(auto& x, auto&& f) { f(x.list, WIRE_MEMBER(Events)); }
};

/// Asks who used how much. The answer is status_text.
struct usage_request {
  double since = 0; // seconds since 1970; 0: since ever
  std::string by;   // "vm", "user", "program" or "vgpu"
  bool operator==(const usage_request&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.since, WIRE_MEMBER(Since));
    f(x.by, WIRE_MEMBER(By));
  }
};

} // namespace vgpu::control

template <>
struct vgpu::wire_enum<vgpu::control::role> {
  static constexpr auto last = control::role::command;
  static constexpr auto what = "role";
};
