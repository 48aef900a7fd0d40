// The messages about a peer's connection, the questions of the command line,
// and tenants with their quotas (schema/wire/wire.capnp).
#pragma once

#include "actors/link/control_values.hpp"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace vgpu::control {

inline constexpr std::uint16_t protocol_version = 1;
inline constexpr std::uint16_t oldest_version = 1;

// -- connections --------------------------------------------------------------

/// Refuses a request. `code` is a CUresult where the program needs one. If
/// `session` is set, nobody asked, and the refusal ends that session.
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

/// Names the kinds of peers.
enum class role : std::uint16_t { node, client, worker, command };

/// Is the first message of a connection, from the peer that connects.
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

/// Is the leading manager's answer to hello.
struct welcome {
  std::uint16_t version = protocol_version;
  std::string software;
  std::uint64_t incarnation = 0;
  std::uint32_t beat_every_ms = 100;
  std::uint32_t lost_after_ms = 500;
  std::uint64_t term = 0; // 0: a single manager without election
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

/// Says that this manager does not lead, or not any more. It sends a welcome
/// when it leads.
struct redirect {
  std::string leader; // the leader's endpoint; empty: unknown
  std::uint64_t term = 0;
  bool operator==(const redirect&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.leader, WIRE_MEMBER(Leader));
    f(x.term, WIRE_MEMBER(Term));
  }
};

/// Answers a request that has no other answer.
struct done {
  bool operator==(const done&) const = default;

  static void fields(auto&, auto&&) {}
};

/// From a command, ends the receiving process. From a node, says that the node
/// leaves, so that its sessions move at once.
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

/// Holds a status as JSON, as `vgpu status --json` prints it.
struct status_text {
  std::string json;
  bool operator==(const status_text&) const = default;

  static void fields(auto& x, auto&& f) { f(x.json, WIRE_MEMBER(Status)); }
};

/// Asks for events.
struct events_request {
  std::uint64_t after = 0;   // only events with a greater number
  std::uint32_t wait_ms = 0; // time to wait for the next event
  bool operator==(const events_request&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.after, WIRE_MEMBER(After));
    f(x.wait_ms, WIRE_MEMBER(WaitMs));
  }
};

/// Answers events_request.
struct events {
  std::vector<event> list;
  bool operator==(const events&) const = default;

  static void fields(auto& x, auto&& f) { f(x.list, WIRE_MEMBER(Events)); }
};

/// Asks to permit a public key, in the name of a token. The answer is done.
struct enroll {
  std::string key; // Z85
  std::string name;
  bool operator==(const enroll&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.key, WIRE_MEMBER(Key));
    f(x.name, WIRE_MEMBER(Name));
  }
};

/// Tells who has a key that the manager's is another one now, and that its own
/// shall be.
struct rotate_key {
  std::uint64_t number = 0; // of the rotation
  std::string manager;      // Z85
  double ends = 0;          // when the former keys end, in seconds since 1970
  bool operator==(const rotate_key&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.number, WIRE_MEMBER(Number));
    f(x.manager, WIRE_MEMBER(Manager));
    f(x.ends, WIRE_MEMBER(Ends));
  }
};

/// Asks to permit another public key in place of the sender's, in answer to
/// rotate_key. The answer is done.
struct renew_key {
  std::uint64_t number = 0; // of the rotation
  std::string key;          // Z85
  bool operator==(const renew_key&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.number, WIRE_MEMBER(Number));
    f(x.key, WIRE_MEMBER(Key));
  }
};

/// Asks for records of the audit log after one of them.
struct audit_request {
  std::uint64_t after = 0;
  bool operator==(const audit_request&) const = default;

  static void fields(auto& x, auto&& f) { f(x.after, WIRE_MEMBER(After)); }
};

/// Holds lines of the audit log, oldest first, as they are in its files, and
/// the last record that the manager has written. Nobody need believe them: the
/// lines prove themselves (audit_chain.hpp).
struct audit {
  std::vector<std::string> lines;
  std::uint64_t head = 0;
  std::string digest;
  bool operator==(const audit&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.lines, WIRE_MEMBER(Lines));
    f(x.head, WIRE_MEMBER(Head));
    f(x.digest, WIRE_MEMBER(Digest));
  }
};

/// Asks for the use by VM, user, program or vGPU. The answer is status_text.
struct usage_request {
  double since = 0; // seconds since 1970; 0: everything
  std::string by;   // "vm", "user", "program" or "vgpu"
  bool operator==(const usage_request&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.since, WIRE_MEMBER(Since));
    f(x.by, WIRE_MEMBER(By));
  }
};

// -- tenants ------------------------------------------------------------------

/// Stands for an amount without a limit.
inline constexpr auto unlimited = std::numeric_limits<std::uint64_t>::max();
/// Stands for a share without a limit.
inline constexpr auto unlimited_share = std::numeric_limits<double>::infinity();
/// Is the largest priority that a vGPU can have; as a limit it is none.
inline constexpr std::int32_t largest_priority = 1'000;

/// Limits what the sessions of a tenant may have together.
struct tenant_limits {
  std::uint64_t gpus = unlimited;   // sum of the pGPUs that they ask for
  std::uint64_t memory = unlimited; // bytes on all these pGPUs
  double share = unlimited_share;   // sum of the parts of these pGPUs
  std::uint64_t sessions = unlimited;
  std::int32_t priority = largest_priority; // of each session
  bool operator==(const tenant_limits&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.gpus, WIRE_MEMBER(Gpus));
    f(x.memory, WIRE_MEMBER(Memory));
    f(x.share, WIRE_MEMBER(Share));
    f(x.sessions, WIRE_MEMBER(Sessions));
    f(x.priority, WIRE_MEMBER(Priority));
  }
};

/// Adds a tenant, or changes the limits of one. Of `limits`, those count that
/// change.
struct set_tenant {
  std::string name;
  bool add = false; // it fails where there is one
  tenant_limits limits;
  bool change_gpus = false;
  bool change_memory = false;
  bool change_share = false;
  bool change_sessions = false;
  bool change_priority = false;
  bool operator==(const set_tenant&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.name, WIRE_MEMBER(Name));
    f(x.add, WIRE_MEMBER(Add));
    f(x.limits, WIRE_MEMBER(Limits));
    f(x.change_gpus, WIRE_MEMBER(ChangeGpus));
    f(x.change_memory, WIRE_MEMBER(ChangeMemory));
    f(x.change_share, WIRE_MEMBER(ChangeShare));
    f(x.change_sessions, WIRE_MEMBER(ChangeSessions));
    f(x.change_priority, WIRE_MEMBER(ChangePriority));
  }
};

/// Removes a tenant. Its sessions, which only `force` allows, go on.
struct remove_tenant {
  std::string name;
  bool force = false;
  bool operator==(const remove_tenant&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.name, WIRE_MEMBER(Name));
    f(x.force, WIRE_MEMBER(Force));
  }
};

/// Asks for tenants.
struct tenants_request {
  bool operator==(const tenants_request&) const = default;

  static void fields(auto&, auto&&) {}
};

/// Describes a tenant: its limits, and what its sessions have.
struct tenant {
  std::string name;
  bool added = false; // else those of the tenant `default` limit it
  tenant_limits limits;
  std::uint64_t gpus = 0;
  std::uint64_t memory = 0; // bytes
  double share = 0;
  std::uint64_t sessions = 0;
  std::uint64_t waiting = 0; // those of its sessions that wait for a place
  bool operator==(const tenant&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.name, WIRE_MEMBER(Name));
    f(x.added, WIRE_MEMBER(Added));
    f(x.limits, WIRE_MEMBER(Limits));
    f(x.gpus, WIRE_MEMBER(Gpus));
    f(x.memory, WIRE_MEMBER(Memory));
    f(x.share, WIRE_MEMBER(Share));
    f(x.sessions, WIRE_MEMBER(Sessions));
    f(x.waiting, WIRE_MEMBER(Waiting));
  }
};

/// Answers tenants_request, in the order of their names.
struct tenants {
  std::vector<tenant> list;
  bool operator==(const tenants&) const = default;

  static void fields(auto& x, auto&& f) { f(x.list, WIRE_MEMBER(Tenants)); }
};

} // namespace vgpu::control

template <>
struct vgpu::wire_enum<vgpu::control::role> {
  static constexpr auto last = control::role::command;
  static constexpr auto what = "role";
};
