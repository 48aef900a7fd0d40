// What the control plane's processes say to one another, as values: one struct
// for each message of schema/wire/wire.capnp. Behaviours see these and nothing
// of how they travel (codec.hpp, link.hpp).
#pragma once

#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"
#include "schema/wire/specification.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace vgpu::control {

inline constexpr std::uint16_t protocol_version = 1;
inline constexpr std::uint16_t oldest_version = 1;

/// No. `code` is a CUresult where the program must be told; `session` is set
/// where the refusal comes unasked and ends that session.
struct refusal {
  CUresult code = CUDA_SUCCESS;
  std::string reason;
  session_id session;
  bool operator==(const refusal&) const = default;
};

enum class role : std::uint16_t { node, client, worker, command };

struct hello {
  std::uint16_t oldest = oldest_version;
  std::uint16_t newest = protocol_version;
  std::string software;
  role as = role::command;
  bool operator==(const hello&) const = default;
};

struct welcome {
  std::uint16_t version = protocol_version;
  std::string software;
  std::uint64_t incarnation = 0;
  std::uint32_t beat_every_ms = 100;
  std::uint32_t lost_after_ms = 500;
  std::uint64_t term = 0; // 0: there is one manager, and it leads always
  bool operator==(const welcome&) const = default;
};

/// Of a manager that does not lead (any more); it says welcome when it does.
struct redirect {
  std::string leader; // its endpoint; empty: nobody that is known of
  std::uint64_t term = 0;
  bool operator==(const redirect&) const = default;
};

// -- inventory ----------------------------------------------------------------

/// What the driver API tells of a device.
struct device_facts {
  std::string name;
  std::array<std::byte, 16> uuid{};
  std::uint64_t total_memory = 0;                  // bytes
  std::map<std::int32_t, std::int32_t> attributes; // by CUdevice_attribute

  /// Compute capability, 90 for 9.0.
  std::int32_t capability() const {
    auto value = [&](std::int32_t key) {
      auto found = attributes.find(key);
      return found == attributes.end() ? 0 : found->second;
    };
    return 10 * value(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
           value(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  }
  bool operator==(const device_facts&) const = default;
};

struct pgpu {
  std::uint32_t ordinal = 0;
  std::string backend; // "cpu" or "nvidia"
  device_facts facts;
  std::string state = "healthy"; // "healthy", "lost", "quarantined"
  std::string policy{};          // by which its compute is shared
  std::uint32_t quantum_us = 0;
  bool operator==(const pgpu&) const = default;
};

/// Where a worker listens.
struct worker_endpoints {
  std::string endpoint;     // ZeroMQ
  std::string guest_socket; // abstract Unix socket, without the leading NUL
  std::string host;         // host id: same text, same host and namespace
  bool operator==(const worker_endpoints&) const = default;
};

struct running_session {
  session_id session;
  vgpu::epoch epoch;
  vgpu_id vgpu;
  std::vector<std::uint32_t> pgpus;
  worker_endpoints worker;
  std::uint32_t pid = 0;
  double share = 0; // 0: the node does not say
  double limit = 0;
  std::int32_t priority = 0;
  bool operator==(const running_session&) const = default;
};

struct register_node {
  std::string name;
  std::string host;
  std::uint32_t pid = 0;
  std::vector<pgpu> pgpus;
  std::vector<running_session> sessions;
  bool operator==(const register_node&) const = default;
};

/// What a session's worker used since it began. Totals that only grow, so that
/// a report that is lost or comes twice changes nothing.
struct usage {
  std::uint64_t device_ns = 0;     // work that was done for the first time
  std::uint64_t replay_ns = 0;     // replays, and states that move
  std::uint64_t to_device = 0;     // bytes, from the program
  std::uint64_t from_device = 0;   // bytes, to the program
  std::uint64_t replay_bytes = 0;  // both ways, in replays
  std::uint64_t memory_kib_ms = 0; // device memory held, times how long
  bool operator==(const usage&) const = default;
};

/// What a session costs its pGPUs' memory beside what it allocates
/// (device::side_memory), in bytes; less than 0: nobody can tell.
struct side_memory {
  std::int64_t variables = -1;
  std::int64_t code = -1;
  std::int64_t context = -1;
  bool operator==(const side_memory&) const = default;
};

struct session_load {
  session_id session;
  vgpu::epoch epoch;
  std::uint64_t memory_bytes = 0;
  std::uint64_t calls = 0;     // executed by this worker since it started
  std::uint64_t call = 0;      // how far it is in the log
  std::uint64_t device_ns = 0; // replays and all, as shares count it
  std::uint64_t turns = 0;
  std::uint64_t quota = 0; // bytes a device, as the worker knows it
  control::usage usage{};
  std::uint64_t idle_ms = 0; // since it had a call, or work in the device
  side_memory beside{};
  bool operator==(const session_load&) const = default;
};

struct node_beat {
  std::string name;
  std::uint64_t number = 0;
  std::vector<session_load> sessions;
  /// The last word on workers that are no more, until it is acknowledged.
  std::vector<session_load> ended{};
  bool operator==(const node_beat&) const = default;
};

struct beat_ack {
  std::uint64_t number = 0; // of the beat, whose `ended` is written down
  std::uint64_t incarnation = 0;
  bool operator==(const beat_ack&) const = default;
};

// -- leases -------------------------------------------------------------------

struct program {
  std::string name;
  std::uint32_t pid = 0;
  std::string host;
  std::string user;
  bool operator==(const program&) const = default;
};

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
  std::string reason; // why it was placed (anew)
  bool operator==(const lease&) const = default;
};

struct acquire {
  control::specification specification;
  control::program program;
  std::uint32_t waited_ms = 0; // so long ago it was asked first
  bool operator==(const acquire&) const = default;
};

/// What a client knows of a session's turns with memory, for a manager that was
/// not there.
struct memory_turns {
  bool preempted = false;       // it is suspended to make room for others
  std::uint32_t since_ms = 0;   // so long ago it came, or left its place
  std::uint32_t left_in_ms = 0; // what it took to leave for others, the last
  std::uint32_t back_in_ms = 0; // time, and to come back; 0: it did not
  bool operator==(const memory_turns&) const = default;
};

struct adopt {
  session_id session;
  vgpu_id vgpu;
  vgpu::epoch epoch;
  std::uint64_t token = 0;
  control::specification specification;
  control::program program;
  std::string node;
  std::uint64_t quota = 0; // of the lease; 0: not known
  bool suspended = false;  // its state is with this client
  bool held = false;       // until it is resumed by name
  bool aside = false;      // there is none: its worker is aside
  memory_turns turns{};
  bool operator==(const adopt&) const = default;
};

struct suspect {
  session_id session;
  vgpu::epoch epoch;
  std::string reason;
  bool operator==(const suspect&) const = default;
};

struct close_session {
  session_id session;
  vgpu::epoch epoch;
  std::string reason;
  bool operator==(const close_session&) const = default;
};

// -- movement -----------------------------------------------------------------

/// Take this vGPU off its pGPU; `hold`: until it is resumed by name.
struct suspend_vgpu {
  vgpu_id vgpu;
  bool hold = false;
  bool operator==(const suspend_vgpu&) const = default;
};

struct resume_vgpu {
  vgpu_id vgpu;
  bool operator==(const resume_vgpu&) const = default;
};

struct migrate_vgpu {
  vgpu_id vgpu;
  std::string node;       // empty: anywhere but here
  std::int32_t pgpu = -1; // -1: any of the node
  bool operator==(const migrate_vgpu&) const = default;
};

struct drain_node {
  std::string node;
  bool undo = false; // it takes sessions again
  bool operator==(const drain_node&) const = default;
};

/// To a client: take the session's state, and let its worker go. Of one that is
/// suspended already it is to know that it is held.
struct pause_session {
  session_id session;
  vgpu::epoch epoch;
  /// Not empty: it goes to these pGPUs of the host it is on, and they may be
  /// handed its memory.
  std::vector<std::uint32_t> lend_to{};
  bool suspend = false;   // no other worker follows before its program calls
  bool hold = false;      // or before it is resumed by name
  bool turn_over = false; // it makes room for others
  bool operator==(const pause_session&) const = default;
};

/// A client's answer to pause_session.
struct paused {
  session_id session;
  vgpu::epoch epoch;
  std::string failure;     // not empty: it runs on where it was
  std::uint64_t bytes = 0; // of the state
  double milliseconds = 0;
  bool aside = false; // its worker waits as it is, and has these bytes
  bool operator==(const paused&) const = default;
};

/// There is room again for a session whose worker is aside.
struct bring_back {
  session_id session;
  vgpu::epoch epoch;
  bool operator==(const bring_back&) const = default;
};

/// A suspended session's program has made a call.
struct wake_session {
  session_id session;
  bool operator==(const wake_session&) const = default;
};

/// A session whose state was taken runs again.
struct restored {
  session_id session;
  vgpu::epoch epoch;
  std::uint64_t bytes = 0;
  double milliseconds = 0; // since its worker was asked to stop
  bool operator==(const restored&) const = default;
};

// -- workers ------------------------------------------------------------------

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
  /// The worker of the former epoch executes nothing any more.
  bool former_gave_way = false;
  bool operator==(const start_worker&) const = default;
};

/// A worker will be wanted for a session: it is started, opens its devices, and
/// waits for start_worker.
struct prepare_worker {
  session_id session;
  vgpu_id vgpu;
  std::vector<std::uint32_t> pgpus; // empty: none is wanted after all
  std::uint64_t quota = 0;          // bytes a device
  bool operator==(const prepare_worker&) const = default;
};

/// From a worker to its node, and from there to the manager.
struct worker_prepared {
  session_id session;
  std::string failure; // not empty: there is none
  bool operator==(const worker_prepared&) const = default;
};

struct worker_started {
  session_id session;
  vgpu::epoch epoch;
  worker_endpoints worker;
  std::uint32_t pid = 0;
  std::string failure; // not empty: it could not be started
  bool operator==(const worker_started&) const = default;
};

struct worker_exited {
  session_id session;
  vgpu::epoch epoch;
  std::string how; // "exit 0", "signal 9", ...
  bool clean = false;
  bool operator==(const worker_exited&) const = default;
};

struct stop_worker {
  session_id session;
  vgpu::epoch epoch; // this one and older ones
  std::string reason;
  bool operator==(const stop_worker&) const = default;
};

struct worker_hello {
  session_id session;
  vgpu::epoch epoch;
  worker_endpoints worker;
  std::string failure;
  bool operator==(const worker_hello&) const = default;
};

struct worker_beat {
  session_load load;
  CUresult error = CUDA_SUCCESS; // of the session's device
  bool operator==(const worker_beat&) const = default;
};

struct inject_fault {
  std::string node;
  std::uint32_t pgpu = 0;
  std::string kind; // "lost", "hang", "ecc"
  bool operator==(const inject_fault&) const = default;
};

// -- resizing -----------------------------------------------------------------

/// Changes a vGPU while it runs; what is zero or empty stays.
struct set_vgpu {
  vgpu_id vgpu;
  double share = 0;
  double limit = 0;
  std::uint64_t memory = 0;
  bool change_priority = false;
  std::int32_t priority = 0;
  bool operator==(const set_vgpu&) const = default;
};

/// By which policy a pGPU's compute is shared; what is zero or empty stays.
struct set_policy {
  std::string node;
  std::uint32_t pgpu = 0;
  std::string policy;
  std::uint32_t quantum_us = 0;
  bool operator==(const set_policy&) const = default;
};

/// What a session holds from now on.
struct resize_session {
  session_id session;
  vgpu::epoch epoch;
  double share = 1;
  double limit = 1;
  std::int32_t priority = 0;
  std::uint64_t quota = 0; // bytes a device
  bool operator==(const resize_session&) const = default;
};

// -- accounts -----------------------------------------------------------------

/// Who used how much; answered with status_text.
struct usage_request {
  double since = 0; // seconds since 1970; 0: since ever
  std::string by;   // "vm", "user", "program" or "vgpu"
  bool operator==(const usage_request&) const = default;
};

// -- events and commands ------------------------------------------------------

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
  bool operator==(const event&) const = default;
};

struct status_request {
  bool operator==(const status_request&) const = default;
};

/// JSON, as `vgpu status --json` prints it.
struct status_text {
  std::string json;
  bool operator==(const status_text&) const = default;
};

struct events_request {
  std::uint64_t after = 0;   // only events with a greater number
  std::uint32_t wait_ms = 0; // how long to wait for one
  bool operator==(const events_request&) const = default;
};

struct events {
  std::vector<event> list;
  bool operator==(const events&) const = default;
};

struct shutdown {
  bool operator==(const shutdown&) const = default;
};

struct done {
  bool operator==(const done&) const = default;
};

using body = std::variant<
    refusal, hello, welcome, register_node, node_beat, worker_started,
    worker_exited, beat_ack, start_worker, stop_worker, acquire, adopt, suspect,
    close_session, event, lease, worker_hello, worker_beat, inject_fault,
    status_request, status_text, events_request, events, shutdown, done,
    set_vgpu, set_policy, resize_session, suspend_vgpu, resume_vgpu,
    migrate_vgpu, drain_node, pause_session, paused, wake_session, restored,
    usage_request, prepare_worker, worker_prepared, redirect, bring_back>;

/// One message.
struct envelope {
  std::string from;          // logical name of the sender
  std::uint64_t request = 0; // repeated in the answer; 0: none is due
  control::body body;
  std::uint16_t version = protocol_version;
  bool operator==(const envelope&) const = default;
};

/// A short name of what a message is, for logs.
const char* name_of(const body& what) noexcept;

} // namespace vgpu::control
