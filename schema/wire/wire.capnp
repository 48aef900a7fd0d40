@0xe3c5d1a7b90f4c21;
# The control plane: what managers, nodes, workers, clients and the command
# line say to one another. One message is one ZeroMQ frame that holds one
# Envelope. The data plane (a session's calls) has its own file, data.capnp.
#
# Fields are numbered for ever. An unknown union member is answered with
# `refusal` where an answer is due, and logged otherwise; unknown fields of a
# newer peer are ignored, as Cap'n Proto does.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("vgpu::wire");

const protocolVersion :UInt16 = 1;
const oldestVersion :UInt16 = 1;

struct Envelope {
  from @0 :Text;
  # Logical name of the sender: `manager`, `node/a`, `worker/17`,
  # `client/host-4711`, `command`.
  request @1 :UInt64;
  # Chosen by who asks, repeated in the answer; zero where none is due.
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
    # From a command: end. From a node: it leaves; its sessions move at once.
    done @27 :Void;

    # command -> manager
    setVgpu @28 :SetVgpu;
    setPolicy @29 :SetPolicy;
    # And manager -> node.

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
    # Answered with status: JSON, as `vgpu usage --json` prints it.

    # manager -> node
    prepareWorker @40 :PrepareWorker;
    # worker -> node -> manager
    workerPrepared @41 :WorkerPrepared;

    # manager -> whoever said hello, in place of welcome, or later
    redirect @42 :Redirect;

    # manager -> client
    restoreProcess @43 :RestoreProcess;
  }
}

struct Refusal {
  code @0 :UInt32;
  # CUresult, or 0 where the refusal has nothing to do with CUDA.
  reason @1 :Text;
  # A sentence: the object, what was wrong, what to do.
  session @2 :UInt64;
  # Not zero: it comes unasked, and this session is over.
}

struct Hello {
  # The first message on a connection, from the one who connects.
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
  # The one both will speak.
  software @1 :Text;
  incarnation @2 :UInt64;
  # Of the manager: a peer that sees another one registers again.
  beatEveryMs @3 :UInt32;
  lostAfterMs @4 :UInt32;
  term @5 :UInt64;
  # Grows with each manager that leads; who has been welcomed in a later one
  # listens to no earlier one. Zero: there is one manager, and it leads always.
}
struct Redirect {
  # This manager does not lead (any more). It says welcome when it does.
  leader @0 :Text;
  # The endpoint of who does; empty: nobody that is known of.
  term @1 :UInt64;
}

# -- inventory ------------------------------------------------------------------

struct Attribute {
  key @0 :Int32;
  value @1 :Int32;
}
struct DeviceFacts {
  # What the driver API tells of a device.
  name @0 :Text;
  uuid @1 :Data;
  totalMemory @2 :UInt64;
  attributes @3 :List(Attribute);
}
struct PGpu {
  ordinal @0 :UInt32;
  backend @1 :Text;
  # "cpu" or "nvidia"
  facts @2 :DeviceFacts;
  state @3 :Text;
  # "healthy", "lost", "quarantined"
  policy @4 :Text;
  # By which its compute is shared; empty where it is not.
  quantumUs @5 :UInt32;
  # How long a turn lasts, at most.
}
struct RunningSession {
  # A worker that a node runs: what a registering node brings along.
  session @0 :UInt64;
  epoch @1 :UInt64;
  vgpu @2 :UInt64;
  pgpus @3 :List(UInt32);
  worker @4 :WorkerEndpoints;
  pid @5 :UInt32;
  share @6 :Float64;
  limit @7 :Float64;
  priority @8 :Int32;
  # What it has of the compute, as the node was told last; a share of zero: the
  # node does not say.
}
struct RegisterNode {
  name @0 :Text;
  host @1 :Text;
  pid @2 :UInt32;
  pgpus @3 :List(PGpu);
  sessions @4 :List(RunningSession);
}
struct NodeBeat {
  name @0 :Text;
  number @1 :UInt64;
  sessions @2 :List(SessionLoad);
  ended @3 :List(SessionLoad);
  # The last word on workers that are no more: said until it is acknowledged.
}
struct SessionLoad {
  session @0 :UInt64;
  epoch @1 :UInt64;
  memoryBytes @2 :UInt64;
  calls @3 :UInt64;
  # Executed by this worker since it started.
  callNumber @4 :UInt64;
  # How far it is in the log.
  deviceNs @5 :UInt64;
  # Device time that was charged to it in turns.
  turns @6 :UInt64;
  quota @7 :UInt64;
  # Bytes a device, as its worker knows it.
  usage @8 :Usage;
  # Of this epoch.
  idleMs @9 :UInt64;
  # Since it last had a call or work in the device.
  beside @10 :SideMemory;
}
struct SideMemory {
  # What the session costs its pGPUs' memory beside what it allocates, in bytes;
  # less than 0: nobody can tell.
  variables @0 :Int64 = -1;
  # Of its modules.
  code @1 :Int64 = -1;
  # Of them.
  context @2 :Int64 = -1;
}
struct Usage {
  # What a worker used since it began. Totals, which only grow: a report that
  # is lost or comes twice changes nothing.
  deviceNs @0 :UInt64;
  # Time that its devices worked for calls executed for the first time.
  replayNs @1 :UInt64;
  # The same for what was done before: replays, and states that move.
  toDevice @2 :UInt64;
  fromDevice @3 :UInt64;
  # Bytes between program and device.
  replayBytes @4 :UInt64;
  # The same for replays, both ways.
  memoryKibMs @5 :UInt64;
  # Device memory that it held, times how long: KiB x milliseconds.
}
struct BeatAck {
  number @0 :UInt64;
  # Of the beat; what had ended in it is written down.
  incarnation @1 :UInt64;
}

# -- leases ---------------------------------------------------------------------

enum Protection {
  none @0;
  journal @1;
  snapshot @2;
}
struct Specification {
  # What is asked of a vGPU.
  share @0 :Float64 = 1.0;
  # Of one pGPU's compute, in (0, 1].
  memory @1 :UInt64;
  # Bytes a device; zero: as much as the pGPU has by share.
  gpus @2 :UInt32 = 1;
  protection @3 :Protection = journal;
  limit @4 :Float64 = 1.0;
  # Of one pGPU's compute, in (0, 1]; never more than this.
  priority @5 :Int32;
  node @6 :Text;
  # Only there; empty: anywhere.
  pgpu @7 :Int32 = -1;
  # Only that ordinal; -1: any.
  backend @8 :Text;
  # Only such pGPUs; empty: any.
  locality @9 :Locality = localFirst;
  beside @10 :UInt64;
  # On the pGPU of that vGPU; zero: of none.
  apart @11 :UInt64;
  # Not on the pGPU of that vGPU; zero: of none.
  waitMs @12 :UInt32 = 4294967295;
  # How long to wait for a place; zero: fail at once; the default: for ever.
  snapshotMs @13 :UInt32 = 10000;
  # Under protection snapshot: how often a state is taken.
  idleAfterMs @14 :UInt32 = 4294967295;
  # Without a call for so long, it is suspended; the default: never.
  group @15 :UInt64;
  # Processes of one group are placed together where they fit; zero: of none.
  capability @16 :UInt16;
  # Only pGPUs of this compute capability or a higher one, 80 for 8.0; zero: any.
}
enum Locality {
  # Where the program's host comes in.
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
  # ZeroMQ, for calls that are forwarded: tcp://HOST:PORT or ipc://PATH.
  guestSocket @1 :Text;
  # Abstract Unix socket name without the leading NUL; for a client on the
  # same host, which hands over the log itself.
  host @2 :Text;
  # Where it runs: the host's boot id and network namespace, so that "same
  # host" can be told.
}
struct Lease {
  # The manager's grant; sent as the answer to acquire and adopt, and again,
  # unasked, with a higher epoch, whenever the session was placed anew.
  session @0 :UInt64;
  vgpu @1 :UInt64;
  epoch @2 :UInt64;
  node @3 :Text;
  worker @4 :WorkerEndpoints;
  token @5 :UInt64;
  # What a client shows the worker; new in each epoch.
  quota @6 :UInt64;
  # Bytes a device.
  devices @7 :List(DeviceFacts);
  pgpus @8 :List(UInt32);
  protection @9 :Protection;
  reason @10 :Text;
  # Why it was placed (anew): "first", "worker exited", "node lost", ...
}
struct Acquire {
  specification @0 :Specification;
  program @1 :Program;
  waitedMs @2 :UInt32;
  # So long ago it was asked first, of another manager or on another connection.
}
struct Adopt {
  # A client that was restarted, or whose manager was, takes up a session that
  # exists. Answered with the lease in force.
  session @0 :UInt64;
  vgpu @1 :UInt64;
  epoch @2 :UInt64;
  token @3 :UInt64;
  specification @4 :Specification;
  program @5 :Program;
  node @6 :Text;
  quota @7 :UInt64;
  # Of the lease; zero: not known.
  suspended @8 :Bool;
  # Its state is with this client, and no worker serves it.
  held @9 :Bool;
  # Until it is resumed by name.
  processCheckpointed @10 :Bool;
  # There is no state: its worker's process is checkpointed.
  turns @11 :MemoryTurns;
}
struct MemoryTurns {
  # What a client knows of a session's turns with memory, for a manager that was
  # not there.
  preempted @0 :Bool;
  # It is suspended to make room for others.
  sinceMs @1 :UInt32;
  # So long ago it came where it is, or left its place.
  leftInMs @2 :UInt32;
  # What it took to leave for others, the last time,
  backInMs @3 :UInt32;
  # and to come back. Zero: it did not.
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

# -- movement -------------------------------------------------------------------

struct SuspendVgpu {
  vgpu @0 :UInt64;
  hold @1 :Bool;
  # Until it is resumed by name; else its next call brings it back.
}
struct MigrateVgpu {
  vgpu @0 :UInt64;
  node @1 :Text;
  # Empty: wherever there is room but here.
  pgpu @2 :Int32 = -1;
  # -1: any of the node.
}
struct DrainNode {
  node @0 :Text;
  undo @1 :Bool;
  # Takes sessions again.
}
struct PauseSession {
  # Take the session's state and let its worker go.
  session @0 :UInt64;
  epoch @1 :UInt64;
  lendTo @2 :List(UInt32);
  # Where it is taken up on the same host: the pGPUs that may be handed its
  # memory, one for each of its devices.
  suspend @3 :Bool;
  # No other worker is to follow before the program calls, or
  hold @4 :Bool;
  # before it is resumed by name. To one that is suspended already this alone is
  # news, for its client to tell the next manager.
  turnOver @5 :Bool;
  # It makes room for others.
}
struct Paused {
  # The answer to pauseSession.
  session @0 :UInt64;
  epoch @1 :UInt64;
  failure @2 :Text;
  # Not empty: it runs on where it was, for this reason.
  bytes @3 :UInt64;
  # Of the state.
  milliseconds @4 :Float64;
  processCheckpointed @5 :Bool;
  # There is no state: its worker waits where it was, with so many bytes of its
  # GPUs' memory on its host.
}
struct RestoreProcess {
  # There is room again for a session whose worker's process is checkpointed.
  session @0 :UInt64;
  epoch @1 :UInt64;
}
struct Restored {
  # A session whose state was taken runs again.
  session @0 :UInt64;
  epoch @1 :UInt64;
  bytes @2 :UInt64;
  milliseconds @3 :Float64;
  # Since its worker was asked to stop.
}

# -- workers --------------------------------------------------------------------

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
  formerGaveWay @11 :Bool;
  # The worker of the former epoch executes nothing any more: nobody waits for
  # its end.
}
struct PrepareWorker {
  # A worker will be wanted for this session: one is started, opens its devices,
  # and waits for startWorker.
  session @0 :UInt64;
  vgpu @1 :UInt64;
  pgpus @2 :List(UInt32);
  # Empty: none will be wanted after all.
  quota @3 :UInt64;
}
struct WorkerPrepared {
  session @0 :UInt64;
  failure @1 :Text;
  # Not empty: there is none, for this reason.
}
struct WorkerStarted {
  session @0 :UInt64;
  epoch @1 :UInt64;
  worker @2 :WorkerEndpoints;
  pid @3 :UInt32;
  failure @4 :Text;
  # Not empty: it could not be started, for this reason.
}
struct WorkerExited {
  session @0 :UInt64;
  epoch @1 :UInt64;
  how @2 :Text;
  # "exit 0", "signal 9", ...
  clean @3 :Bool;
}
struct StopWorker {
  session @0 :UInt64;
  epoch @1 :UInt64;
  # This epoch and older ones.
  reason @2 :Text;
}
struct WorkerHello {
  # The first word of a worker to its node, once it listens.
  session @0 :UInt64;
  epoch @1 :UInt64;
  worker @2 :WorkerEndpoints;
  failure @3 :Text;
}
struct WorkerBeat {
  load @0 :SessionLoad;
  error @1 :UInt32;
  # CUresult of the session's device, 0 while well.
}
struct InjectFault {
  # To a node, from `vgpu`'s command line or a test: break a pGPU on purpose.
  node @0 :Text;
  pgpu @1 :UInt32;
  kind @2 :Text;
  # "lost", "hang", "ecc"
}

# -- resizing -------------------------------------------------------------------

struct SetVgpu {
  # What is zero stays as it is.
  vgpu @0 :UInt64;
  share @1 :Float64;
  limit @2 :Float64;
  memory @3 :UInt64;
  changePriority @4 :Bool;
  priority @5 :Int32;
}
struct SetPolicy {
  node @0 :Text;
  pgpu @1 :UInt32;
  policy @2 :Text;
  # Empty: stays as it is.
  quantumUs @3 :UInt32;
  # Zero: stays as it is.
}
struct ResizeSession {
  session @0 :UInt64;
  epoch @1 :UInt64;
  share @2 :Float64;
  limit @3 :Float64;
  priority @4 :Int32;
  quota @5 :UInt64;
  # Bytes a device.
}

# -- accounts -------------------------------------------------------------------

struct UsageRequest {
  since @0 :Float64;
  # Seconds since 1970; zero: since ever.
  by @1 :Text;
  # "vm", "user", "program" or "vgpu"
}

# -- events ---------------------------------------------------------------------

struct Event {
  number @0 :UInt64;
  # Given by the manager.
  time @1 :Float64;
  # Seconds since 1970, by the clock of who saw it.
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
}
struct EventsRequest {
  after @0 :UInt64;
  # Only events with a greater number.
  waitMs @1 :UInt32;
  # Answer when there is one, or after this time.
}
struct Events {
  events @0 :List(Event);
}
