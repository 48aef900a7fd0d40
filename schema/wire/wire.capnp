@0xe3c5d1a7b90f4c21;
# The control plane: the messages between managers, nodes, workers, clients and
# the command line. One message is one ZeroMQ frame with one Envelope. The data
# plane (a session's calls) has its own file, data.capnp.
#
# Numbers of fields never change. A process answers an unknown union member with
# `refusal` if an answer is due, and logs it otherwise. It ignores unknown
# fields of a newer peer, as Cap'n Proto does.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("vgpu::wire");

const protocolVersion :UInt16 = 1;
const oldestVersion :UInt16 = 1;

struct Envelope {
  from @0 :Text;
  # The logical name of the sender: `manager`, `node/a`, `worker/17`,
  # `client/host-4711`, `command`.
  request @1 :UInt64;
  # A number that the sender chooses and the answer repeats, or zero where no
  # answer is due.
  version @2 :UInt16 = 1;

  union {
    refusal @3 :Refusal;
    hello @4 :Hello;
    welcome @5 :Welcome;

    # node -> manager
    registerNode @6 :RegisterNode;
    nodeBeat @7 :NodeBeat;
    workerStarted @8 :WorkerStarted;
    workerExited @9 :WorkerExited;

    # manager -> node
    beatAck @10 :BeatAck;
    startWorker @11 :StartWorker;
    stopWorker @12 :StopWorker;

    # client -> manager
    acquire @13 :Acquire;
    adopt @14 :Adopt;
    suspect @15 :Suspect;
    closeSession @16 :CloseSession;
    report @17 :Event;

    # manager -> client
    lease @18 :Lease;

    # worker <-> its node
    workerHello @19 :WorkerHello;
    workerBeat @20 :WorkerBeat;
    injectFault @21 :InjectFault;

    # command -> manager (or node), and back
    statusRequest @22 :Void;
    status @23 :Text;
    # JSON, as `vgpu status --json` prints it.
    eventsRequest @24 :EventsRequest;
    events @25 :Events;
    shutdown @26 :Void;
    # From a command: the manager ends. From a node: the node leaves, and the
    # manager places its sessions elsewhere at once.
    done @27 :Void;

    # command -> manager
    setVgpu @28 :SetVgpu;
    setPolicy @29 :SetPolicy;
    # Also manager -> node.

    # manager -> node -> worker
    resizeSession @30 :ResizeSession;

    # command -> manager
    suspendVgpu @31 :SuspendVgpu;
    resumeVgpu @32 :UInt64;
    migrateVgpu @33 :MigrateVgpu;
    drainNode @34 :DrainNode;

    # manager -> client, and back
    pauseSession @35 :PauseSession;
    paused @36 :Paused;
    wakeSession @37 :UInt64;
    restored @38 :Restored;

    # command -> manager
    usageRequest @39 :UsageRequest;
    # The answer is `status` with JSON, as `vgpu usage --json` prints it.

    # manager -> node
    prepareWorker @40 :PrepareWorker;
    # worker -> node -> manager
    workerPrepared @41 :WorkerPrepared;

    # manager -> any peer, in place of welcome or later
    redirect @42 :Redirect;

    # manager -> client
    restoreProcess @43 :RestoreProcess;

    # node or user -> manager
    enroll @44 :Enroll;

    # command -> manager, and back
    setTenant @45 :SetTenant;
    removeTenant @46 :RemoveTenant;
    tenantsRequest @47 :Void;
    tenants @48 :Tenants;

    # command -> manager, and back
    auditRequest @49 :AuditRequest;
    audit @50 :Audit;

    # manager -> whoever has a key, and back
    rotateKey @51 :RotateKey;
    renewKey @52 :RenewKey;

    # worker -> node
    standby @53 :Standby;
    # The node answers `wanted` with workerPrepared, which it also sends, with a
    # failure, when the standby is gone. It answers `inTheWay` when the standbys
    # have ended, or refuses it where there are none.
  }
}

struct Refusal {
  code @0 :UInt32;
  # A CUresult, or 0 where the refusal does not concern CUDA.
  reason @1 :Text;
  # A sentence that names the object, what was wrong and what to do.
  session @2 :UInt64;
  # Zero, or the session that has ended. Such a refusal answers no request.
}

struct Hello {
  # The first message on a connection, from the side that connects.
  oldest @0 :UInt16;
  newest @1 :UInt16;
  software @2 :Text;
  role @3 :Role;
}
enum Role {
  node @0;
  client @1;
  worker @2;
  command @3;
}
struct Welcome {
  version @0 :UInt16;
  # The version that both sides will speak.
  software @1 :Text;
  incarnation @2 :UInt64;
  # The manager's incarnation. A peer that sees another one registers again.
  beatEveryMs @3 :UInt32;
  lostAfterMs @4 :UInt32;
  term @5 :UInt64;
  # The leader's term, which grows with each leader. A peer ignores managers of
  # an earlier term than the latest that welcomed it. Zero: there is only one
  # manager, which always leads.
}
struct Redirect {
  # This manager does not lead, or no longer leads. It sends welcome when it
  # leads.
  leader @0 :Text;
  # The leader's endpoint, or empty if no leader is known.
  term @1 :UInt64;
}

# -- inventory
# ------------------------------------------------------------------

struct Attribute {
  key @0 :Int32;
  value @1 :Int32;
}
struct DeviceFacts {
  # The properties of a device that the driver API returns.
  name @0 :Text;
  uuid @1 :Data;
  totalMemory @2 :UInt64;
  attributes @3 :List(Attribute);
}
struct PGpu {
  ordinal @0 :UInt32;
  backend @1 :Text;
  # "cpu" or "nvidia".
  facts @2 :DeviceFacts;
  state @3 :Text;
  # "healthy", "lost" or "quarantined".
  policy @4 :Text;
  # The share policy, or empty where compute is not shared.
  quantumUs @5 :UInt32;
  # The longest duration of a turn.
}
struct RunningSession {
  # A worker that a node runs. A node reports its workers when it registers.
  session @0 :UInt64;
  epoch @1 :UInt64;
  vgpu @2 :UInt64;
  pgpus @3 :List(UInt32);
  worker @4 :WorkerEndpoints;
  pid @5 :UInt32;
  share @6 :Float64;
  limit @7 :Float64;
  priority @8 :Int32;
  # The share, limit and priority that the manager last set at the node. With a
  # share of zero, the node does not know them.
}
struct RegisterNode {
  name @0 :Text;
  host @1 :Text;
  pid @2 :UInt32;
  pgpus @3 :List(PGpu);
  sessions @4 :List(RunningSession);
  sandbox @5 :Text;
  # What workers give up here, and what the host does not let them give up.
  insecureNetwork @6 :Bool;
  # Whether its workers listen on a network without keys.
}
struct NodeBeat {
  name @0 :Text;
  number @1 :UInt64;
  sessions @2 :List(SessionLoad);
  ended @3 :List(SessionLoad);
  # The final loads of ended workers, repeated until the manager acknowledges
  # them.
}
struct SessionLoad {
  session @0 :UInt64;
  epoch @1 :UInt64;
  memoryBytes @2 :UInt64;
  calls @3 :UInt64;
  # The number of calls that this worker executed since it started.
  callNumber @4 :UInt64;
  # The worker's position in the log.
  deviceNs @5 :UInt64;
  # The device time that was charged to the session in turns.
  turns @6 :UInt64;
  quota @7 :UInt64;
  # Bytes per device, as the worker knows them.
  usage @8 :Usage;
  # The use in this epoch.
  idleMs @9 :UInt64;
  # The time since the session last had a call or work on the device.
  side @10 :SideMemory;
  standby @11 :Bool;
  # Whether a standby at the same place has the objects of the newest snapshot.
}
struct SideMemory {
  # The bytes of its pGPUs' memory that the session uses in addition to its
  # allocations. A negative number means "not known".
  variables @0 :Int64 = -1;
  # The variables of its modules.
  code @1 :Int64 = -1;
  # The code of its modules.
  context @2 :Int64 = -1;
}
struct Usage {
  # A worker's use since it began. The numbers are totals that only grow, so a
  # lost or duplicate report changes nothing.
  deviceNs @0 :UInt64;
  # The time for which its devices worked on calls executed for the first time.
  replayNs @1 :UInt64;
  # The time for which its devices worked on replays and on moving states.
  toDevice @2 :UInt64;
  fromDevice @3 :UInt64;
  # The bytes copied between program and device, in each direction.
  replayBytes @4 :UInt64;
  # The bytes that replays copied, in both directions.
  memoryKibMs @5 :UInt64;
  # The device memory that it held, times how long: KiB x milliseconds.
}
struct BeatAck {
  number @0 :UInt64;
  # The beat's number. The manager has stored the beat's ended sessions.
  incarnation @1 :UInt64;
}

# -- leases
# ---------------------------------------------------------------------

enum Protection {
  none @0;
  journal @1;
  snapshot @2;
}
struct Specification {
  # The properties that a program requests of its vGPU.
  share @0 :Float64 = 1.0;
  # The part of one pGPU's compute, in (0, 1].
  memory @1 :UInt64;
  # Bytes per device. Zero: the pGPU's memory times the share.
  gpus @2 :UInt32 = 1;
  protection @3 :Protection = journal;
  limit @4 :Float64 = 1.0;
  # The largest part of one pGPU's compute, in (0, 1].
  priority @5 :Int32;
  node @6 :Text;
  # The required node. Empty: any.
  pgpu @7 :Int32 = -1;
  # The required ordinal. -1: any.
  backend @8 :Text;
  # The required backend. Empty: any.
  locality @9 :Locality = localFirst;
  beside @10 :UInt64;
  # The vGPU whose pGPUs are required. Zero: none.
  apart @11 :UInt64;
  # The vGPU whose pGPUs are excluded. Zero: none.
  waitMs @12 :UInt32 = 4294967295;
  # How long to wait for a place. Zero: fail at once. The default: without
  # limit.
  snapshotMs @13 :UInt32 = 10000;
  # The time between snapshots under protection snapshot.
  idleAfterMs @14 :UInt32 = 4294967295;
  # The time without a call after which the vGPU is suspended. The default:
  # never.
  group @15 :UInt64;
  # The group, whose processes are placed together where they fit. Zero: none.
  capability @16 :UInt16;
  # The lowest compute capability of the pGPU, such as 80 for 8.0. Zero: any.
  recoverWithinMs @17 :UInt32 = 2000;
  # The time in which the session recovers from the loss of its worker.
  protectCost @18 :Float64 = 2;
  # The largest part of the time that snapshots take for that, in percent.
  onDivergence @19 :Divergence = continue;
}
enum Divergence {
  # What happens when a replay gives other results than the program has read.
  continue @0;
  # The program continues, with the state of the replay.
  error @1;
  # The program gets an error.
  snapshot @2;
  # That does not happen: the program gets no result before a snapshot covers it.
}
enum Locality {
  # Whether the program's own host is preferred, required or neither.
  localFirst @0;
  localOnly @1;
  any @2;
}
struct Program {
  name @0 :Text;
  pid @1 :UInt32;
  host @2 :Text;
  user @3 :Text;
}
struct WorkerEndpoints {
  endpoint @0 :Text;
  # The ZeroMQ endpoint for forwarded calls: tcp://HOST:PORT or ipc://PATH.
  guestSocket @1 :Text;
  # The abstract Unix socket name without the leading NUL, for a client on the
  # same host, which passes the log itself.
  host @2 :Text;
  # The host's boot id and network namespace, by which a client recognises its
  # own host.
  key @3 :Text;
  # The public key (Z85) of the worker's TCP port, new in each epoch. Empty: the
  # port has none.
}
struct NextWorker {
  # How the worker of a session reaches the prepared worker of its next place on
  # the same host, to which it tells what that one can do in advance.
  socket @0 :Text;
  # The abstract Unix socket name without the leading NUL, or empty: there is
  # none, or it can do nothing in advance.
  token @1 :UInt64;
  # The secret by which the prepared worker recognises it.
}
struct Lease {
  # The manager's grant. It answers acquire and adopt, and the manager sends it
  # again, with a higher epoch, after each new placement of the session.
  session @0 :UInt64;
  vgpu @1 :UInt64;
  epoch @2 :UInt64;
  node @3 :Text;
  worker @4 :WorkerEndpoints;
  token @5 :UInt64;
  # The secret by which the worker recognises its client, new in each epoch.
  quota @6 :UInt64;
  # Bytes per device.
  devices @7 :List(DeviceFacts);
  pgpus @8 :List(UInt32);
  protection @9 :Protection;
  reason @10 :Text;
  # The reason for the placement: "first", "worker exited", "node lost", ...
  recoverWithinMs @11 :UInt32;
  # This and the next two are those of the specification, which `vgpu set` may
  # have changed. Zero, from an older manager: all three are as the program
  # requested.
  protectCost @12 :Float64;
  onDivergence @13 :Divergence;
  clientKey @14 :Text;
  # The client's key that the worker admits, as in StartWorker.
}
struct Acquire {
  specification @0 :Specification;
  program @1 :Program;
  waitedMs @2 :UInt32;
  # The time since the first request, which may have gone to another manager or
  # over another connection.
}
struct Adopt {
  # After a restart of the client or of the manager, the client reports an
  # existing session. The answer is the current lease.
  session @0 :UInt64;
  vgpu @1 :UInt64;
  epoch @2 :UInt64;
  token @3 :UInt64;
  specification @4 :Specification;
  program @5 :Program;
  node @6 :Text;
  quota @7 :UInt64;
  # The lease's quota, or zero if the client does not know it.
  suspended @8 :Bool;
  # Whether this client has the session's state, and no worker serves it.
  held @9 :Bool;
  # Whether the session stays suspended until `vgpu resume`.
  processCheckpointed @10 :Bool;
  # Whether there is no state because the worker's process is checkpointed.
  turns @11 :MemoryTurns;
}
struct MemoryTurns {
  # A session's turns with memory, which a client reports to a new manager.
  preempted @0 :Bool;
  # Whether the session is suspended to make room for others.
  sinceMs @1 :UInt32;
  # The time since the session was placed or suspended.
  leftInMs @2 :UInt32;
  # How long the latest suspension to make room took. Zero: there was none.
  backInMs @3 :UInt32;
  # How long the latest return took. Zero: there was none.
}
struct Suspect {
  # The worker of this epoch does not answer its client.
  session @0 :UInt64;
  epoch @1 :UInt64;
  reason @2 :Text;
}
struct CloseSession {
  session @0 :UInt64;
  epoch @1 :UInt64;
  reason @2 :Text;
}

# -- movement
# -------------------------------------------------------------------

struct SuspendVgpu {
  vgpu @0 :UInt64;
  hold @1 :Bool;
  # Whether the vGPU stays suspended until `vgpu resume`. Otherwise its next
  # call resumes it.
}
struct MigrateVgpu {
  vgpu @0 :UInt64;
  node @1 :Text;
  # The target node. Empty: any place but the current one.
  pgpu @2 :Int32 = -1;
  # The target's ordinal. -1: any of the node.
}
struct DrainNode {
  node @0 :Text;
  undo @1 :Bool;
  # Whether the node accepts sessions again.
}
struct PauseSession {
  # The client takes the session's state, and its worker ends.
  session @0 :UInt64;
  epoch @1 :UInt64;
  lendTo @2 :List(UInt32);
  # For a migration on the same host: the pGPUs that the worker may lend the
  # session's memory to, one for each of its devices.
  suspend @3 :Bool;
  # Whether the session is suspended until the program's next call.
  hold @4 :Bool;
  # Whether the session is suspended until `vgpu resume`. For a session that is
  # suspended already, only this changes. Its client reports it to the next
  # manager.
  turnOver @5 :Bool;
  # Whether the session is suspended to make room for others.
  next @6 :NextWorker;
  # For a migration on the same host: the prepared worker.
}
struct Paused {
  # The answer to pauseSession.
  session @0 :UInt64;
  epoch @1 :UInt64;
  failure @2 :Text;
  # The reason why the session continues on its worker, or empty.
  bytes @3 :UInt64;
  # The size of the state.
  milliseconds @4 :Float64;
  processCheckpointed @5 :Bool;
  # Whether there is no state, because the worker's process is checkpointed in
  # its place, with `bytes` of its GPUs' memory on its host.
}
struct RestoreProcess {
  # There is room again for a session whose worker's process is checkpointed.
  # The client restores the process.
  session @0 :UInt64;
  epoch @1 :UInt64;
}
struct Enroll {
  # Whoever connects with the key of a token asks for a key of its own. The
  # answer is `done`.
  key @0 :Text;
  # The public key, as text (Z85).
  name @1 :Text;
  # The name of the node or the user.
}
struct RotateKey {
  # The manager has another key, and wants another one of the receiver. Both
  # former keys are good until `ends`.
  number @0 :UInt64;
  # Counts the rotations of this manager.
  manager @1 :Text;
  # The manager's new public key.
  ends @2 :Float64;
  # Seconds since 1970.
}
struct RenewKey {
  # Answers RotateKey with the sender's new public key. The answer is `done`.
  number @0 :UInt64;
  # As in RotateKey.
  key @1 :Text;
}
struct Restored {
  # A checkpointed session runs again.
  session @0 :UInt64;
  epoch @1 :UInt64;
  bytes @2 :UInt64;
  milliseconds @3 :Float64;
  # The time since the client ordered the checkpoint.
}

# -- workers
# --------------------------------------------------------------------

struct StartWorker {
  session @0 :UInt64;
  vgpu @1 :UInt64;
  epoch @2 :UInt64;
  token @3 :UInt64;
  pgpus @4 :List(UInt32);
  quota @5 :UInt64;
  protection @6 :Protection;
  program @7 :Text;
  share @8 :Float64;
  limit @9 :Float64 = 1.0;
  priority @10 :Int32;
  formerReleased @11 :Bool;
  # Whether the former epoch's worker executes no more calls, so that the node
  # need not wait for its end.
  clientKey @12 :Text;
  # The public key (Z85) that the session's client proved to the manager. Only
  # this key passes at the worker's TCP port, where the port has a key.
}
struct PrepareWorker {
  # The node starts a worker for this session in advance. The worker opens its
  # devices and waits for startWorker.
  session @0 :UInt64;
  vgpu @1 :UInt64;
  pgpus @2 :List(UInt32);
  # Empty: the worker is not needed after all.
  quota @3 :UInt64;
}
struct WorkerPrepared {
  session @0 :UInt64;
  failure @1 :Text;
  # The reason why there is no prepared worker, or empty.
  next @2 :NextWorker;
  # Where the worker can be told what to do in advance.
}
struct Standby {
  # What a worker tells its node of its standby: the prepared worker at the same
  # place that serves the session if this one dies.
  session @0 :UInt64;
  epoch @1 :UInt64;
  news @2 :StandbyNews;
}
enum StandbyNews {
  wanted @0;
  # The session is protected, and would gain by a standby: by another one where
  # it has one.
  making @1;
  # The standby makes the session's objects. Until `made` it can serve the
  # session from no snapshot.
  made @2;
  # The newest snapshot has the objects that it has made.
  useless @3;
  # It is not needed any more, or cannot serve the session.
  inTheWay @4;
  # The session needs memory of its pGPUs that standbys may have, whosever they
  # are.
}
struct WorkerStarted {
  session @0 :UInt64;
  epoch @1 :UInt64;
  worker @2 :WorkerEndpoints;
  pid @3 :UInt32;
  failure @4 :Text;
  # The reason why the worker could not be started, or empty.
}
struct WorkerExited {
  session @0 :UInt64;
  epoch @1 :UInt64;
  how @2 :Text;
  # How the process ended: "exit 0", "signal 9", ...
  clean @3 :Bool;
}
struct StopWorker {
  session @0 :UInt64;
  epoch @1 :UInt64;
  # The node stops the workers of this epoch and of older ones.
  reason @2 :Text;
}
struct WorkerHello {
  # A worker's first message to its node, once the worker listens.
  session @0 :UInt64;
  epoch @1 :UInt64;
  worker @2 :WorkerEndpoints;
  failure @3 :Text;
}
struct WorkerBeat {
  load @0 :SessionLoad;
  error @1 :UInt32;
  # The CUresult of the session's device, or 0 while it works.
}
struct InjectFault {
  # From `vgpu` or a test to a node: injects a fault into a pGPU.
  node @0 :Text;
  pgpu @1 :UInt32;
  kind @2 :Text;
  # "lost", "hang" or "ecc".
}

# -- resizing
# -------------------------------------------------------------------

struct SetVgpu {
  # Fields that are zero change nothing.
  vgpu @0 :UInt64;
  share @1 :Float64;
  limit @2 :Float64;
  memory @3 :UInt64;
  changePriority @4 :Bool;
  priority @5 :Int32;
  recoverWithinMs @6 :UInt32;
  changeProtectCost @7 :Bool;
  protectCost @8 :Float64;
  changeOnDivergence @9 :Bool;
  onDivergence @10 :Divergence;
}
struct SetPolicy {
  node @0 :Text;
  pgpu @1 :UInt32;
  policy @2 :Text;
  # Empty: no change.
  quantumUs @3 :UInt32;
  # Zero: no change.
}
struct ResizeSession {
  session @0 :UInt64;
  epoch @1 :UInt64;
  share @2 :Float64;
  # Zero: nothing but the client's key changes.
  limit @3 :Float64;
  priority @4 :Int32;
  quota @5 :UInt64;
  # Bytes per device.
  clientKey @6 :Text;
  # As in StartWorker. Empty: no change.
  formerKey @7 :Text;
  # The key that the same client had before, which stays good. Empty: the
  # worker admits nobody else any more.
}

# -- tenants
# --------------------------------------------------------------------

struct TenantLimits {
  # The sums over a tenant's sessions. The largest number, infinity and the
  # priority 1000 are no limits.
  gpus @0 :UInt64;
  memory @1 :UInt64;
  # Bytes on all devices.
  share @2 :Float64;
  sessions @3 :UInt64;
  priority @4 :Int32;
  # The largest of a session.
}
struct SetTenant {
  name @0 :Text;
  add @1 :Bool;
  # Otherwise the tenant is there, and the limits that are marked change.
  limits @2 :TenantLimits;
  changeGpus @3 :Bool;
  changeMemory @4 :Bool;
  changeShare @5 :Bool;
  changeSessions @6 :Bool;
  changePriority @7 :Bool;
}
struct RemoveTenant {
  name @0 :Text;
  force @1 :Bool;
  # Also while it has sessions.
}
struct Tenant {
  name @0 :Text;
  added @1 :Bool;
  # Otherwise the limits are those of the tenant `default`.
  limits @2 :TenantLimits;
  gpus @3 :UInt64;
  memory @4 :UInt64;
  share @5 :Float64;
  sessions @6 :UInt64;
  waiting @7 :UInt64;
}
struct Tenants {
  tenants @0 :List(Tenant);
}

# -- the audit log
# --------------------------------------------------------------

struct AuditRequest {
  after @0 :UInt64;
  # Only records with a greater number.
}
struct Audit {
  lines @0 :List(Text);
  head @1 :UInt64;
  digest @2 :Text;
  # The last record of the log.
}

# -- accounts
# -------------------------------------------------------------------

struct UsageRequest {
  since @0 :Float64;
  # Seconds since 1970. Zero: all times.
  by @1 :Text;
  # "vm", "user", "program" or "vgpu".
}

# -- events
# ---------------------------------------------------------------------

struct Event {
  number @0 :UInt64;
  # The manager's number for the event.
  time @1 :Float64;
  # Seconds since 1970, by the clock of the process that reported the event.
  kind @2 :Text;
  node @3 :Text;
  session @4 :UInt64;
  vgpu @5 :UInt64;
  epoch @6 :UInt64;
  text @7 :Text;
  # One sentence for a person.
  calls @8 :UInt64;
  bytes @9 :UInt64;
  milliseconds @10 :Float64;
  tenant @11 :Text;
  # Whose session it is about. Empty: none's.
}
struct EventsRequest {
  after @0 :UInt64;
  # Only events with a greater number.
  waitMs @1 :UInt32;
  # The manager answers when there is such an event, or after this time.
}
struct Events {
  events @0 :List(Event);
}
