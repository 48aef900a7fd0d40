// The control plane's messages as values. Actors see only these; codec.hpp and
// link.hpp carry them. The structs and their fields are declared in
// schema/wire, by subject. This file has one row for each message.
#pragma once

#include "actors/link/node_messages.hpp"
#include "actors/link/peer_messages.hpp"
#include "actors/link/permitted_keys.hpp"
#include "actors/link/session_messages.hpp"

#include <cstdint>
#include <string>
#include <tuple>
#include <variant>

namespace vgpu::control {

/// Says whose sessions a message with a key may be about.
enum class scope : std::uint8_t {
  /// Nobody's: this key may not send it.
  none,
  /// Those of the key's own tenant. Of all others the manager behaves as if
  /// they did not exist.
  own,
  all
};

/// Says who may send a message to a manager: a peer in one of these roles,
/// which must also have one of these keys where it has a key at all.
struct senders {
  // Roles, by hello.
  bool node = false;
  bool client = false;
  bool worker = false;
  bool command = false;
  // Keys, by the kind of their principal.
  scope node_key = scope::none;
  scope tenant_key = scope::none;
  scope admin_key = scope::none;
  scope newcomer_key = scope::none;
  bool operator==(const senders&) const = default;

  constexpr bool has(role x) const {
    return (x == role::node && node) || (x == role::client && client) ||
           (x == role::worker && worker) || (x == role::command && command);
  }
};
inline constexpr senders from_nobody{};
inline constexpr senders from_anybody{.node = true,
                                      .client = true,
                                      .worker = true,
                                      .command = true,
                                      .node_key = scope::own,
                                      .tenant_key = scope::own,
                                      .admin_key = scope::all};
inline constexpr senders from_nodes{.node = true, .node_key = scope::own};
inline constexpr senders from_clients{
    .client = true, .tenant_key = scope::own, .admin_key = scope::own};
/// Orders and questions about the cluster.
inline constexpr senders from_commands{.command = true,
                                       .admin_key = scope::all};
/// Orders and questions about vGPUs. A tenant has them for its own.
inline constexpr senders from_owners{
    .command = true, .tenant_key = scope::own, .admin_key = scope::all};
/// A node that leaves, or an admin who ends the manager.
inline constexpr senders from_nodes_and_commands{.node = true,
                                                 .command = true,
                                                 .node_key = scope::own,
                                                 .admin_key = scope::all};
/// Who holds a token has no role yet.
inline constexpr senders from_newcomers{.newcomer_key = scope::own};

/// Describes a message: its member of the envelope's union, who may send it to
/// a manager, and whether the audit log names who does.
template <class Choice>
struct message_row : Choice {
  senders may_say;
  bool is_order = false;
};
template <class Choice>
constexpr message_row<Choice> said(senders by, Choice choice) {
  return {choice, by, false};
}
/// Makes the row of a message that changes whose programs run, where, with what
/// and for whom.
template <class Choice>
constexpr message_row<Choice> ordered(senders by, Choice choice) {
  return {choice, by, true};
}

/// Lists all messages, in the order of `body`. It is the table by which a
/// manager permits messages, and has no other.
inline constexpr std::tuple messages{
    said(from_anybody, WIRE_CHOICE(refusal, Refusal)),
    said(from_anybody, WIRE_CHOICE(hello, Hello)),
    said(from_nobody, WIRE_CHOICE(welcome, Welcome)),
    ordered(from_nodes, WIRE_CHOICE(register_node, RegisterNode)),
    said(from_nodes, WIRE_CHOICE(node_beat, NodeBeat)),
    said(from_nodes, WIRE_CHOICE(worker_started, WorkerStarted)),
    said(from_nodes, WIRE_CHOICE(worker_exited, WorkerExited)),
    said(from_nobody, WIRE_CHOICE(beat_ack, BeatAck)),
    said(from_nobody, WIRE_CHOICE(start_worker, StartWorker)),
    said(from_nobody, WIRE_CHOICE(stop_worker, StopWorker)),
    ordered(from_clients, WIRE_CHOICE(acquire, Acquire)),
    ordered(from_clients, WIRE_CHOICE(adopt, Adopt)),
    said(from_clients, WIRE_CHOICE(suspect, Suspect)),
    said(from_clients, WIRE_CHOICE(close_session, CloseSession)),
    said(from_anybody, WIRE_CHOICE(event, Report)),
    said(from_nobody, WIRE_CHOICE(lease, Lease)),
    said(from_nobody, WIRE_CHOICE(worker_hello, WorkerHello)),
    said(from_nobody, WIRE_CHOICE(worker_beat, WorkerBeat)),
    ordered(from_commands, WIRE_CHOICE(inject_fault, InjectFault)),
    said(from_owners, WIRE_CHOICE(status_request, StatusRequest)),
    said(from_nobody, WIRE_CHOICE(status_text, Status)),
    said(from_owners, WIRE_CHOICE(events_request, EventsRequest)),
    said(from_nobody, WIRE_CHOICE(events, Events)),
    ordered(from_nodes_and_commands, WIRE_CHOICE(shutdown, Shutdown)),
    said(from_anybody, WIRE_CHOICE(done, Done)),
    ordered(from_owners, WIRE_CHOICE(set_vgpu, SetVgpu)),
    ordered(from_commands, WIRE_CHOICE(set_policy, SetPolicy)),
    said(from_nobody, WIRE_CHOICE(resize_session, ResizeSession)),
    ordered(from_owners, WIRE_CHOICE(suspend_vgpu, SuspendVgpu)),
    ordered(from_owners, WIRE_CHOICE(resume_vgpu, ResumeVgpu)),
    ordered(from_owners, WIRE_CHOICE(migrate_vgpu, MigrateVgpu)),
    ordered(from_commands, WIRE_CHOICE(drain_node, DrainNode)),
    said(from_nobody, WIRE_CHOICE(pause_session, PauseSession)),
    said(from_clients, WIRE_CHOICE(paused, Paused)),
    said(from_clients, WIRE_CHOICE(wake_session, WakeSession)),
    said(from_clients, WIRE_CHOICE(restored, Restored)),
    said(from_owners, WIRE_CHOICE(usage_request, UsageRequest)),
    said(from_nobody, WIRE_CHOICE(prepare_worker, PrepareWorker)),
    said(from_nodes, WIRE_CHOICE(worker_prepared, WorkerPrepared)),
    said(from_nobody, WIRE_CHOICE(redirect, Redirect)),
    said(from_nobody, WIRE_CHOICE(restore_process, RestoreProcess)),
    ordered(from_newcomers, WIRE_CHOICE(enroll, Enroll)),
    ordered(from_commands, WIRE_CHOICE(set_tenant, SetTenant)),
    ordered(from_commands, WIRE_CHOICE(remove_tenant, RemoveTenant)),
    said(from_owners, WIRE_CHOICE(tenants_request, TenantsRequest)),
    said(from_nobody, WIRE_CHOICE(tenants, Tenants)),
    said(from_commands, WIRE_CHOICE(audit_request, AuditRequest)),
    said(from_nobody, WIRE_CHOICE(audit, Audit)),
    said(from_nobody, WIRE_CHOICE(rotate_key, RotateKey)),
    ordered(from_anybody, WIRE_CHOICE(renew_key, RenewKey)),
    said(from_nobody, WIRE_CHOICE(standby, Standby)),
};

/// Holds any of the messages above.
using body = one_of_choices<decltype(messages)>;

/// Holds one message with its sender and request number.
struct envelope {
  std::string from;          // logical name of the sender
  std::uint64_t request = 0; // repeated in the answer; 0: no answer
  control::body body;
  std::uint16_t version = protocol_version;
  // These do not travel. The manager that heard the connection writes them.
  /// Holds whom the sender's key names; null: it has no key.
  principal_ptr who{};
  /// Says whose sessions the message may be about. Where nobody has a key, each
  /// role reaches all.
  scope reach = scope::all;
  bool operator==(const envelope&) const = default;
};

/// Returns the message's kind as a short text, for the log.
const char* name_of(const body& what) noexcept;

/// Returns who may send `what` to a manager.
const senders& senders_of(const body& what) noexcept;

/// Returns whether the audit log names who sends `what` to a manager.
bool is_order(const body& what) noexcept;

/// Returns whether a peer of this role may send `what` to a manager.
bool may_say(role as, const body& what) noexcept;

} // namespace vgpu::control
