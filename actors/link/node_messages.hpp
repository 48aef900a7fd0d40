// The messages of managers, nodes and workers about nodes, pGPUs and workers
// (schema/wire/wire.capnp).
#pragma once

#include "actors/link/control_values.hpp"
#include "schema/base/injected_fault.hpp"

namespace vgpu::control {

// -- nodes --------------------------------------------------------------------

/// Registers a node with its pGPUs and its running sessions.
struct register_node {
  std::string name;
  std::string host;
  std::uint32_t pid = 0;
  std::vector<pgpu> pgpus;
  std::vector<running_session> sessions;
  /// Says what the node's workers give up, and what the host does not let them
  /// give up.
  std::string sandbox{};
  /// Tells whether its workers listen on a network without keys.
  bool insecure_network = false;
  bool operator==(const register_node&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.name, WIRE_MEMBER(Name));
    f(x.host, WIRE_MEMBER(Host));
    f(x.pid, WIRE_MEMBER(Pid));
    f(x.pgpus, WIRE_MEMBER(Pgpus));
    f(x.sessions, WIRE_MEMBER(Sessions));
    f(x.sandbox, WIRE_MEMBER(Sandbox));
    f(x.insecure_network, WIRE_MEMBER(InsecureNetwork));
  }
};

/// Is a node's heartbeat, with the load of its sessions.
struct node_beat {
  std::string name;
  std::uint64_t number = 0;
  std::vector<session_load> sessions;
  /// Holds the last reports of workers that ended, until the manager
  /// acknowledges them.
  std::vector<session_load> ended{};
  bool operator==(const node_beat&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.name, WIRE_MEMBER(Name));
    f(x.number, WIRE_MEMBER(Number));
    f(x.sessions, WIRE_MEMBER(Sessions));
    f(x.ended, WIRE_MEMBER(Ended));
  }
};

/// Answers node_beat.
struct beat_ack {
  std::uint64_t number = 0; // the beat whose `ended` is stored
  std::uint64_t incarnation = 0;
  bool operator==(const beat_ack&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.number, WIRE_MEMBER(Number));
    f(x.incarnation, WIRE_MEMBER(Incarnation));
  }
};

/// Moves all sessions off a node, which then takes no new ones.
struct drain_node {
  std::string node;
  bool undo = false; // let the node take sessions again
  bool operator==(const drain_node&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.node, WIRE_MEMBER(Node));
    f(x.undo, WIRE_MEMBER(Undo));
  }
};

/// Sets the policy by which a pGPU's compute is shared. Fields that are zero or
/// empty change nothing.
struct set_policy {
  std::string node;
  std::uint32_t pgpu = 0;
  std::string policy;
  std::uint32_t quantum_us = 0;
  bool operator==(const set_policy&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.node, WIRE_MEMBER(Node));
    f(x.pgpu, WIRE_MEMBER(Pgpu));
    f(x.policy, WIRE_MEMBER(Policy));
    f(x.quantum_us, WIRE_MEMBER(QuantumUs));
  }
};

/// Breaks a pGPU on purpose.
struct inject_fault {
  std::string node;
  std::uint32_t pgpu = 0;
  injected_fault kind = injected_fault::lost;
  bool operator==(const inject_fault&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.node, WIRE_MEMBER(Node));
    f(x.pgpu, WIRE_MEMBER(Pgpu));
    f(x.kind, WIRE_MEMBER(Kind));
  }
};

// -- workers ------------------------------------------------------------------

/// Asks a node for a session's worker.
struct start_worker {
  session_id session;
  vgpu_id vgpu;
  vgpu::epoch epoch;
  std::uint64_t token = 0;
  std::vector<std::uint32_t> pgpus;
  std::uint64_t quota = 0; // bytes a device
  control::protection protection = control::protection::journal;
  std::string program;
  double share = 1.0;
  double limit = 1.0;
  std::int32_t priority = 0;
  /// Says that the worker of the former epoch executes nothing any more.
  bool former_released = false;
  /// Holds the public key that the session's client proved to the manager;
  /// empty: it proved none.
  std::string client_key{};
  bool operator==(const start_worker&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.session, WIRE_MEMBER(Session));
    f(x.vgpu, WIRE_MEMBER(Vgpu));
    f(x.epoch, WIRE_MEMBER(Epoch));
    f(x.token, WIRE_MEMBER(Token));
    f(x.pgpus, WIRE_MEMBER(Pgpus));
    f(x.quota, WIRE_MEMBER(Quota));
    f(x.protection, WIRE_MEMBER(Protection));
    f(x.program, WIRE_MEMBER(Program));
    f(x.share, WIRE_MEMBER(Share));
    f(x.limit, WIRE_MEMBER(Limit));
    f(x.priority, WIRE_MEMBER(Priority));
    f(x.former_released, WIRE_MEMBER(FormerReleased));
    f(x.client_key, WIRE_MEMBER(ClientKey));
  }
};

/// Asks a node to start a worker that a session will need. The worker opens its
/// devices and waits for start_worker.
struct prepare_worker {
  session_id session;
  vgpu_id vgpu;
  std::vector<std::uint32_t> pgpus; // empty: the worker is not needed any more
  std::uint64_t quota = 0;          // bytes a device
  bool operator==(const prepare_worker&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.session, WIRE_MEMBER(Session));
    f(x.vgpu, WIRE_MEMBER(Vgpu));
    f(x.pgpus, WIRE_MEMBER(Pgpus));
    f(x.quota, WIRE_MEMBER(Quota));
  }
};

/// Says that a prepared worker has opened its devices. The worker sends it to
/// its node, and the node to the manager.
struct worker_prepared {
  session_id session;
  std::string failure; // empty: it succeeded
  next_worker next{};  // how the session's worker reaches it
  bool operator==(const worker_prepared&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.session, WIRE_MEMBER(Session));
    f(x.failure, WIRE_MEMBER(Failure));
    f(x.next, WIRE_MEMBER(Next));
  }
};

/// Says what a worker tells of its standby (schema/wire/wire.capnp).
enum class standby_news : std::uint16_t {
  wanted,
  making,
  made,
  useless,
  in_the_way
};

/// Tells a node about the standby of one of its workers: the prepared worker
/// that serves the session if that one dies.
struct standby {
  session_id session;
  vgpu::epoch epoch;
  standby_news news = standby_news::wanted;
  bool operator==(const standby&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.session, WIRE_MEMBER(Session));
    f(x.epoch, WIRE_MEMBER(Epoch));
    f(x.news, WIRE_MEMBER(News));
  }
};

/// Answers start_worker.
struct worker_started {
  session_id session;
  vgpu::epoch epoch;
  worker_endpoints worker;
  std::uint32_t pid = 0;
  std::string failure; // empty: it succeeded
  bool operator==(const worker_started&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.session, WIRE_MEMBER(Session));
    f(x.epoch, WIRE_MEMBER(Epoch));
    f(x.worker, WIRE_MEMBER(Worker));
    f(x.pid, WIRE_MEMBER(Pid));
    f(x.failure, WIRE_MEMBER(Failure));
  }
};

/// Tells the manager that a worker's process has ended.
struct worker_exited {
  session_id session;
  vgpu::epoch epoch;
  std::string how; // "exit 0", "signal 9", ...
  bool clean = false;
  bool operator==(const worker_exited&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.session, WIRE_MEMBER(Session));
    f(x.epoch, WIRE_MEMBER(Epoch));
    f(x.how, WIRE_MEMBER(How));
    f(x.clean, WIRE_MEMBER(Clean));
  }
};

/// Asks a node to end the workers of a session, of this epoch and earlier ones.
struct stop_worker {
  session_id session;
  vgpu::epoch epoch;
  std::string reason;
  bool operator==(const stop_worker&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.session, WIRE_MEMBER(Session));
    f(x.epoch, WIRE_MEMBER(Epoch));
    f(x.reason, WIRE_MEMBER(Reason));
  }
};

/// Introduces a worker to its node, once it listens.
struct worker_hello {
  session_id session;
  vgpu::epoch epoch;
  worker_endpoints worker;
  std::string failure;
  bool operator==(const worker_hello&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.session, WIRE_MEMBER(Session));
    f(x.epoch, WIRE_MEMBER(Epoch));
    f(x.worker, WIRE_MEMBER(Worker));
    f(x.failure, WIRE_MEMBER(Failure));
  }
};

/// Is a worker's heartbeat to its node.
struct worker_beat {
  session_load load;
  CUresult error = CUDA_SUCCESS; // of the session's device
  bool operator==(const worker_beat&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.load, WIRE_MEMBER(Load));
    f(x.error, WIRE_MEMBER(Error));
  }
};

} // namespace vgpu::control

template <>
struct vgpu::wire_enum<vgpu::control::standby_news> {
  static constexpr auto last = vgpu::control::standby_news::in_the_way;
  static constexpr const char* what = "news of a standby";
};
template <>
struct vgpu::wire_enum<vgpu::injected_fault> {
  static constexpr auto names = injected_fault_names;
  static constexpr const char* what = "kind of fault";
};
