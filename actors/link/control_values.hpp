// The values that control-plane messages are made of (schema/wire/wire.capnp).
#pragma once

#include "schema/base/enum_names.hpp"
#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"
#include "schema/wire/guest_hello.hpp"
#include "schema/wire/message_fields.hpp"
#include "schema/wire/next_worker.hpp"
#include "schema/wire/specification.hpp"

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace vgpu::control {

/// Describes a device as the driver API does.
struct device_facts {
  std::string name;
  std::array<std::byte, 16> uuid{};
  std::uint64_t total_memory = 0;                  // bytes
  std::map<std::int32_t, std::int32_t> attributes; // by CUdevice_attribute

  /// Returns the compute capability, 90 for 9.0.
  std::int32_t capability() const {
    auto value = [&](std::int32_t key) {
      auto found = attributes.find(key);
      return found == attributes.end() ? 0 : found->second;
    };
    return 10 * value(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
           value(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  }
  bool operator==(const device_facts&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.name, WIRE_MEMBER(Name));
    f(x.uuid, WIRE_MEMBER(Uuid));
    f(x.total_memory, WIRE_MEMBER(TotalMemory));
    f(x.attributes, WIRE_MEMBER(Attributes));
  }
};

/// Says whether a pGPU can be used. A pGPU that is not healthy stays so until
/// its node's process ends.
enum class pgpu_health {
  /// Sessions can be placed on it.
  healthy,
  /// The device is gone.
  lost,
  /// The device has errors, so that no session may use it.
  quarantined,
};

inline constexpr enum_names<pgpu_health, 3> pgpu_health_names{{
    {pgpu_health::healthy, "healthy"},
    {pgpu_health::lost, "lost"},
    {pgpu_health::quarantined, "quarantined"},
}};
static_assert(is_complete(pgpu_health_names, pgpu_health::quarantined));

/// Returns the text for JSON, the wire and the log.
constexpr const char* name_of(pgpu_health x) noexcept {
  return text_in(pgpu_health_names, x);
}

struct pgpu {
  std::uint32_t ordinal = 0;
  std::string backend; // "cpu" or "nvidia"
  device_facts facts;
  pgpu_health state = pgpu_health::healthy;
  std::string policy{}; // the share policy
  std::uint32_t quantum_us = 0;
  bool operator==(const pgpu&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.ordinal, WIRE_MEMBER(Ordinal));
    f(x.backend, WIRE_MEMBER(Backend));
    f(x.facts, WIRE_MEMBER(Facts));
    f(x.state, WIRE_MEMBER(State));
    f(x.policy, WIRE_MEMBER(Policy));
    f(x.quantum_us, WIRE_MEMBER(QuantumUs));
  }
};

/// Holds the addresses of a worker.
struct worker_endpoints {
  std::string endpoint;     // ZeroMQ
  std::string guest_socket; // abstract Unix socket, without the leading NUL
  std::string host;         // host_id(), which two processes share on one host
  std::string key{};        // public, of the TCP port; empty: it has none
  bool operator==(const worker_endpoints&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.endpoint, WIRE_MEMBER(Endpoint));
    f(x.guest_socket, WIRE_MEMBER(GuestSocket));
    f(x.host, WIRE_MEMBER(Host));
    f(x.key, WIRE_MEMBER(Key));
  }
};

struct running_session {
  session_id session;
  vgpu::epoch epoch;
  vgpu_id vgpu;
  std::vector<std::uint32_t> pgpus;
  worker_endpoints worker;
  std::uint32_t pid = 0;
  double share = 0; // 0: the node does not report it
  double limit = 0;
  std::int32_t priority = 0;
  bool operator==(const running_session&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.session, WIRE_MEMBER(Session));
    f(x.epoch, WIRE_MEMBER(Epoch));
    f(x.vgpu, WIRE_MEMBER(Vgpu));
    f(x.pgpus, WIRE_MEMBER(Pgpus));
    f(x.worker, WIRE_MEMBER(Worker));
    f(x.pid, WIRE_MEMBER(Pid));
    f(x.share, WIRE_MEMBER(Share));
    f(x.limit, WIRE_MEMBER(Limit));
    f(x.priority, WIRE_MEMBER(Priority));
  }
};

/// Holds what a session's worker has used since it began. The totals only grow,
/// so a lost or repeated report changes nothing.
struct usage {
  std::uint64_t device_ns = 0;     // work, without replays
  std::uint64_t replay_ns = 0;     // replays, and the transfer of states
  std::uint64_t to_device = 0;     // bytes from the program
  std::uint64_t from_device = 0;   // bytes to the program
  std::uint64_t replay_bytes = 0;  // bytes in both directions, in replays
  std::uint64_t memory_kib_ms = 0; // device memory times how long it was held
  bool operator==(const usage&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.device_ns, WIRE_MEMBER(DeviceNs));
    f(x.replay_ns, WIRE_MEMBER(ReplayNs));
    f(x.to_device, WIRE_MEMBER(ToDevice));
    f(x.from_device, WIRE_MEMBER(FromDevice));
    f(x.replay_bytes, WIRE_MEMBER(ReplayBytes));
    f(x.memory_kib_ms, WIRE_MEMBER(MemoryKibMs));
  }
};

/// Holds how much of its pGPUs' memory a session takes besides its allocations
/// (device::side_memory), in bytes. Negative values are unknown.
struct side_memory {
  std::int64_t variables = -1;
  std::int64_t code = -1;
  std::int64_t context = -1;
  bool operator==(const side_memory&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.variables, WIRE_MEMBER(Variables));
    f(x.code, WIRE_MEMBER(Code));
    f(x.context, WIRE_MEMBER(Context));
  }
};

struct session_load {
  session_id session;
  vgpu::epoch epoch;
  std::uint64_t memory_bytes = 0;
  std::uint64_t calls = 0;     // executed by this worker since it started
  std::uint64_t call = 0;      // position in the call log
  std::uint64_t device_ns = 0; // with replays, as shares count it
  std::uint64_t turns = 0;
  std::uint64_t quota = 0; // bytes a device, as the worker knows it
  control::usage usage{};
  std::uint64_t idle_ms = 0; // since the last call or work in the device
  side_memory side{};
  bool standby = false; // one can serve the session at once
  bool operator==(const session_load&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.session, WIRE_MEMBER(Session));
    f(x.epoch, WIRE_MEMBER(Epoch));
    f(x.memory_bytes, WIRE_MEMBER(MemoryBytes));
    f(x.calls, WIRE_MEMBER(Calls));
    f(x.call, WIRE_MEMBER(CallNumber));
    f(x.device_ns, WIRE_MEMBER(DeviceNs));
    f(x.turns, WIRE_MEMBER(Turns));
    f(x.quota, WIRE_MEMBER(Quota));
    f(x.usage, WIRE_MEMBER(Usage));
    f(x.idle_ms, WIRE_MEMBER(IdleMs));
    f(x.side, WIRE_MEMBER(Side));
    f(x.standby, WIRE_MEMBER(Standby));
  }
};

/// Holds what a client reports of a session's turns with memory to a manager
/// that did not see them.
struct memory_turns {
  bool preempted = false;     // suspended to make room for others
  std::uint32_t since_ms = 0; // time since it got or left its memory
  /// The last swap-out took so many milliseconds.
  std::uint32_t left_in_ms = 0;
  /// The last swap-in took so many milliseconds; 0: there was none.
  std::uint32_t back_in_ms = 0;
  bool operator==(const memory_turns&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.preempted, WIRE_MEMBER(Preempted));
    f(x.since_ms, WIRE_MEMBER(SinceMs));
    f(x.left_in_ms, WIRE_MEMBER(LeftInMs));
    f(x.back_in_ms, WIRE_MEMBER(BackInMs));
  }
};

struct event {
  std::uint64_t number = 0; // given by the manager
  double time = 0;          // seconds since 1970
  std::string kind;
  std::string node;
  session_id session;
  vgpu_id vgpu;
  vgpu::epoch epoch;
  std::string text;
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;
  double milliseconds = 0;
  /// Names whose it is; empty: the cluster's. The manager writes it.
  std::string tenant{};
  bool operator==(const event&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.number, WIRE_MEMBER(Number));
    f(x.time, WIRE_MEMBER(Time));
    f(x.kind, WIRE_MEMBER(Kind));
    f(x.node, WIRE_MEMBER(Node));
    f(x.session, WIRE_MEMBER(Session));
    f(x.vgpu, WIRE_MEMBER(Vgpu));
    f(x.epoch, WIRE_MEMBER(Epoch));
    f(x.text, WIRE_MEMBER(Text));
    f(x.calls, WIRE_MEMBER(Calls));
    f(x.bytes, WIRE_MEMBER(Bytes));
    f(x.milliseconds, WIRE_MEMBER(Milliseconds));
    f(x.tenant, WIRE_MEMBER(Tenant));
  }
};

} // namespace vgpu::control

template <>
struct vgpu::wire_enum<vgpu::control::pgpu_health> {
  static constexpr auto names = control::pgpu_health_names;
  static constexpr const char* what = "state of a pGPU";
};
