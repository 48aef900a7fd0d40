// The messages of managers, clients and the command line about sessions and
// vGPUs (schema/wire/wire.capnp).
#pragma once

#include "actors/link/control_values.hpp"

namespace vgpu::control {

// -- leases -------------------------------------------------------------------

/// Is the manager's grant: the answer to acquire and adopt. The manager sends
/// it again, with a higher epoch, whenever it places the session anew.
struct lease {
  session_id session;
  vgpu_id vgpu;
  vgpu::epoch epoch;
  std::string node;
  worker_endpoints worker;
  std::uint64_t token = 0;
  std::uint64_t quota = 0; // bytes a device
  std::vector<device_facts> devices;
  std::vector<std::uint32_t> pgpus;
  control::protection protection = control::protection::journal;
  std::string reason; // why the session was placed
  recovery_terms recovery{};
  /// Holds the client's public key that the worker admits; empty: none.
  std::string client_key{};
  bool operator==(const lease&) const = default;

  /// Returns whether the other lease of this epoch has other terms.
  bool has_terms_of(const lease& x) const noexcept {
    return quota == x.quota && recovery == x.recovery;
  }

  static void fields(auto& x, auto&& f) {
    f(x.session, WIRE_MEMBER(Session));
    f(x.vgpu, WIRE_MEMBER(Vgpu));
    f(x.epoch, WIRE_MEMBER(Epoch));
    f(x.node, WIRE_MEMBER(Node));
    f(x.worker, WIRE_MEMBER(Worker));
    f(x.token, WIRE_MEMBER(Token));
    f(x.quota, WIRE_MEMBER(Quota));
    f(x.devices, WIRE_MEMBER(Devices));
    f(x.pgpus, WIRE_MEMBER(Pgpus));
    f(x.protection, WIRE_MEMBER(Protection));
    f(x.reason, WIRE_MEMBER(Reason));
    recovery_terms::fields(x.recovery, f);
    f(x.client_key, WIRE_MEMBER(ClientKey));
  }
};

/// Asks for a vGPU for a program.
struct acquire {
  control::specification specification;
  control::program program;
  std::uint32_t waited_ms = 0; // time since the first request
  bool operator==(const acquire&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.specification, WIRE_MEMBER(Specification));
    f(x.program, WIRE_MEMBER(Program));
    f(x.waited_ms, WIRE_MEMBER(WaitedMs));
  }
};

/// Claims an existing session after its client or its manager was restarted.
/// The answer is the lease in force.
struct adopt {
  session_id session;
  vgpu_id vgpu;
  vgpu::epoch epoch;
  std::uint64_t token = 0;
  control::specification specification;
  control::program program;
  std::string node;
  std::uint64_t quota = 0; // of the lease; 0: unknown
  bool suspended = false;  // the client has its state
  bool held = false;       // suspended until a command resumes it
  /// Tells whether its worker's process is checkpointed, so that the client has
  /// no state.
  bool process_checkpointed = false;
  memory_turns turns{};
  bool operator==(const adopt&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.session, WIRE_MEMBER(Session));
    f(x.vgpu, WIRE_MEMBER(Vgpu));
    f(x.epoch, WIRE_MEMBER(Epoch));
    f(x.token, WIRE_MEMBER(Token));
    f(x.specification, WIRE_MEMBER(Specification));
    f(x.program, WIRE_MEMBER(Program));
    f(x.node, WIRE_MEMBER(Node));
    f(x.quota, WIRE_MEMBER(Quota));
    f(x.suspended, WIRE_MEMBER(Suspended));
    f(x.held, WIRE_MEMBER(Held));
    f(x.process_checkpointed, WIRE_MEMBER(ProcessCheckpointed));
    f(x.turns, WIRE_MEMBER(Turns));
  }
};

/// Tells the manager that the worker of this epoch does not answer its client.
struct suspect {
  session_id session;
  vgpu::epoch epoch;
  std::string reason;
  bool operator==(const suspect&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.session, WIRE_MEMBER(Session));
    f(x.epoch, WIRE_MEMBER(Epoch));
    f(x.reason, WIRE_MEMBER(Reason));
  }
};

/// Tells the manager that a session is over.
struct close_session {
  session_id session;
  vgpu::epoch epoch;
  std::string reason;
  bool operator==(const close_session&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.session, WIRE_MEMBER(Session));
    f(x.epoch, WIRE_MEMBER(Epoch));
    f(x.reason, WIRE_MEMBER(Reason));
  }
};

// -- movement -----------------------------------------------------------------

/// Takes a vGPU off its pGPU. `hold`: until it is resumed by name.
struct suspend_vgpu {
  vgpu_id vgpu;
  bool hold = false;
  bool operator==(const suspend_vgpu&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.vgpu, WIRE_MEMBER(Vgpu));
    f(x.hold, WIRE_MEMBER(Hold));
  }
};

/// Brings a suspended vGPU back.
struct resume_vgpu {
  vgpu_id vgpu;
  bool operator==(const resume_vgpu&) const = default;

  static void fields(auto& x, auto&& f) { f(x.vgpu, WIRE_MEMBER(ResumeVgpu)); }
};

/// Moves a vGPU to another pGPU.
struct migrate_vgpu {
  vgpu_id vgpu;
  std::string node;       // empty: any place but the present one
  std::int32_t pgpu = -1; // -1: any pGPU of the node
  bool operator==(const migrate_vgpu&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.vgpu, WIRE_MEMBER(Vgpu));
    f(x.node, WIRE_MEMBER(Node));
    f(x.pgpu, WIRE_MEMBER(Pgpu));
  }
};

/// Asks a client to take the session's state and to release its worker. If the
/// session is suspended already, it only says that the session is held.
struct pause_session {
  session_id session;
  vgpu::epoch epoch;
  /// Holds the pGPUs of the same host to which the session moves, and which may
  /// take over its memory without a copy. Empty: the memory is copied.
  std::vector<std::uint32_t> lend_to{};
  bool suspend = false;   // it stays suspended until its program calls
  bool hold = false;      // it stays suspended until a command resumes it
  bool turn_over = false; // it makes room for other sessions
  /// Says how its worker reaches the prepared one on the same host, if there is
  /// one that can do something in advance.
  next_worker next{};
  bool operator==(const pause_session&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.session, WIRE_MEMBER(Session));
    f(x.epoch, WIRE_MEMBER(Epoch));
    f(x.lend_to, WIRE_MEMBER(LendTo));
    f(x.suspend, WIRE_MEMBER(Suspend));
    f(x.hold, WIRE_MEMBER(Hold));
    f(x.turn_over, WIRE_MEMBER(TurnOver));
    f(x.next, WIRE_MEMBER(Next));
  }
};

/// Answers pause_session.
struct paused {
  session_id session;
  vgpu::epoch epoch;
  std::string failure;     // empty: it succeeded; else the session runs on
  std::uint64_t bytes = 0; // of the state
  double milliseconds = 0;
  /// Tells whether its worker's process was checkpointed; `bytes` are its
  /// memory.
  bool process_checkpointed = false;
  bool operator==(const paused&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.session, WIRE_MEMBER(Session));
    f(x.epoch, WIRE_MEMBER(Epoch));
    f(x.failure, WIRE_MEMBER(Failure));
    f(x.bytes, WIRE_MEMBER(Bytes));
    f(x.milliseconds, WIRE_MEMBER(Milliseconds));
    f(x.process_checkpointed, WIRE_MEMBER(ProcessCheckpointed));
  }
};

/// Tells a client that there is room again for a session whose worker's process
/// is checkpointed.
struct restore_process {
  session_id session;
  vgpu::epoch epoch;
  bool operator==(const restore_process&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.session, WIRE_MEMBER(Session));
    f(x.epoch, WIRE_MEMBER(Epoch));
  }
};

/// Tells the manager that a suspended session's program has made a call.
struct wake_session {
  session_id session;
  bool operator==(const wake_session&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.session, WIRE_MEMBER(WakeSession));
  }
};

/// Tells the manager that a session whose state was taken runs again.
struct restored {
  session_id session;
  vgpu::epoch epoch;
  std::uint64_t bytes = 0;
  double milliseconds = 0; // since its worker was asked to stop
  bool operator==(const restored&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.session, WIRE_MEMBER(Session));
    f(x.epoch, WIRE_MEMBER(Epoch));
    f(x.bytes, WIRE_MEMBER(Bytes));
    f(x.milliseconds, WIRE_MEMBER(Milliseconds));
  }
};

// -- resizing -----------------------------------------------------------------

/// Changes a vGPU while it runs. A field that is zero or empty changes nothing.
struct set_vgpu {
  vgpu_id vgpu;
  double share = 0;
  double limit = 0;
  std::uint64_t memory = 0;
  bool change_priority = false;
  std::int32_t priority = 0;
  std::uint32_t recover_within_ms = 0;
  bool change_protect_cost = false;
  double protect_cost = 0; // percent
  bool change_on_divergence = false;
  divergence on_divergence = divergence::go_on;
  bool operator==(const set_vgpu&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.vgpu, WIRE_MEMBER(Vgpu));
    f(x.share, WIRE_MEMBER(Share));
    f(x.limit, WIRE_MEMBER(Limit));
    f(x.memory, WIRE_MEMBER(Memory));
    f(x.change_priority, WIRE_MEMBER(ChangePriority));
    f(x.priority, WIRE_MEMBER(Priority));
    f(x.recover_within_ms, WIRE_MEMBER(RecoverWithinMs));
    f(x.change_protect_cost, WIRE_MEMBER(ChangeProtectCost));
    f(x.protect_cost, WIRE_MEMBER(ProtectCost));
    f(x.change_on_divergence, WIRE_MEMBER(ChangeOnDivergence));
    f(x.on_divergence, WIRE_MEMBER(OnDivergence));
  }
};

/// Tells a node and its worker the session's new share, limit, priority, quota
/// and client.
struct resize_session {
  session_id session;
  vgpu::epoch epoch;
  double share = 1; // 0: nothing but the client changes
  double limit = 1;
  std::int32_t priority = 0;
  std::uint64_t quota = 0; // bytes a device
  /// Holds the client's public key, where it may have changed.
  std::string client_key{};
  /// Holds the key that the same client had before, and that stays good.
  std::string former_key{};
  bool operator==(const resize_session&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.session, WIRE_MEMBER(Session));
    f(x.epoch, WIRE_MEMBER(Epoch));
    f(x.share, WIRE_MEMBER(Share));
    f(x.limit, WIRE_MEMBER(Limit));
    f(x.priority, WIRE_MEMBER(Priority));
    f(x.quota, WIRE_MEMBER(Quota));
    f(x.client_key, WIRE_MEMBER(ClientKey));
    f(x.former_key, WIRE_MEMBER(FormerKey));
  }
};

} // namespace vgpu::control
