@0xa1eda2d7a08c7a3d;
# The data plane: a session's calls. A call is one message of type Call, and in
# the log it is one record (call_log.hpp). Where a worker cannot map the log,
# the client forwards ranges of the log unchanged: a DataHead, and the payload
# that the head announces. A small payload follows the head in the same frame,
# and a large one has its own frame.

using Cxx = import "/capnp/c++.capnp";
using Wire = import "wire.capnp";
$Cxx.namespace("vgpu::wire");

struct Call {
  function @0 :UInt16;
  # A vgpu::call::number. It is never reused for another meaning.
  device @1 :UInt8;
  # The ordinal of one of the session's devices.
  arguments @2 :List(UInt64);
  # The fields in the order of the call's struct in calls.hpp.
  bytes @3 :Data;
  # The call's one field of variable length (a launch's parameter block).
}

struct ModuleFacts {
  # The answer to module_load and module_facts.
  kernels @0 :List(KernelFacts);
  globals @1 :List(GlobalFacts);
}
struct KernelFacts {
  name @0 :Text;
  parameters @1 :List(ParameterFacts);
  attributes @2 :List(Wire.Attribute);
  # Keyed by CUfunction_attribute.
}
struct ParameterFacts {
  offset @0 :UInt32;
  size @1 :UInt32;
}
struct GlobalFacts {
  name @0 :Text;
  address @1 :UInt64;
  bytes @2 :UInt64;
  managed @3 :Bool;
}

struct DataHead {
  session @0 :UInt64;
  epoch @1 :UInt64;
  union {
    # client -> worker
    attach @2 :Attach;
    calls @3 :Range;
    # Payload: the log's bytes [from, to).
    keepalive @4 :Keepalive;
    detach @5 :Void;
    # The session has ended.

    # worker -> client
    attached @6 :Progress;
    # The client sends the log from `received` on. This is the answer to attach,
    # and the worker also sends it when calls were lost on the way.
    answer @7 :Answer;
    # Payload: the bytes that the call read, if any.
    progress @8 :Progress;
    refused @9 :Text;

    # migrations and snapshots (docs/design/migration.md)
    checkpoint @10 :Checkpoint;
    # client -> worker: stop at a call, and write the session's state.
    goOn @11 :Void;
    # client -> worker: continue, because the state is not needed any more.
    checkpointed @12 :Checkpointed;
    # worker -> client: the worker has stopped. A client on the same host gets
    # the state's file with this, and, if the state lends memory, a parcel of
    # its descriptors (actors/lend/descriptor_parcel.hpp).
    notCheckpointed @13 :Text;
    # worker -> client: the worker continues, for this reason.
    stateWanted @14 :Range;
    # Both ways: send these bytes of the state's file.
    statePart @15 :UInt64;
    # Both ways: the payload is the file's bytes from this offset on.
    differs @16 :Differs;
    # worker -> client: the calls whose answers differed in a replay.
    checkpointing @17 :Checkpointing;
    # worker -> client: the progress of a checkpoint.
    back @18 :Void;
    # worker -> client: the worker's process was checkpointed, and uses its GPUs
    # again.
    join @19 :UInt64;
    # client -> worker, on a second connection: the lease's token. From then on
    # long answers use either connection. worker -> client, on that connection:
    # the client may send calls on it.

    # on one host, before there is an epoch (docs/design/migration.md)
    prepare @20 :UInt64;
    # worker -> prepared worker of its session: that one's token. With it comes
    # a file that describes the session's objects without their contents.
    prepared @21 :Text;
    # prepared worker -> worker: the objects of that file exist here, with
    # variables at the same addresses, or the text says why not all of them do.
    unlike @25 :Text;
    # prepared worker -> worker, in place of `prepared`: variables lie elsewhere
    # here, for this reason, so the session cannot continue here.
    lent @26 :UInt64;
    # worker -> prepared worker that has made the objects: the state at this
    # position lends its memory. With it comes a parcel of the descriptors, which
    # cannot travel by way of a client elsewhere.

    # under Wire.Divergence.snapshot
    coverWanted @22 :UInt64;
    # worker -> client: the call at this position reads what no snapshot covers
    # yet, and waits for one. Zero: it does not wait any more.
    onDivergence @24 :Wire.Divergence;
    # client -> worker: the setting from now on, in place of attach's. A replay
    # that is under way is judged by the former one.

    # snapshots
    covered @23 :UInt64;
    # client -> worker: the newest snapshot is of this position. The largest
    # number: no call is ever executed again.
  }
}

struct Checkpoint {
  compress @0 :Bool;
  # Whether to compress the state, because it will travel.
  goOn @1 :Bool;
  # For a snapshot: continue as soon as the state is described. A client on the
  # same host also sends a file in memory for it, and may send one on a disk.
  order @2 :UInt64;
  # Grows with each order of a client, so that the client recognises a state of
  # an order that it gave up.
  inMemory @3 :UInt64;
  # The largest state in memory: with more bytes of device memory, the state is
  # written to the file on the disk.
  lendTo @4 :List(UInt32);
  # The pGPUs of this host that will serve the session, one for each of its
  # devices, or empty. The worker may lend them its memory in place of copying.
  mayCheckpointProcess @5 :Bool;
  # If the state cannot be described, the driver may checkpoint the worker's
  # whole process.
  next @6 :Wire.NextWorker;
  # The prepared worker on this host that will serve the session, or none. The
  # worker has it make the session's objects before it stops.
  mayLeave @7 :Bool;
  # With goOn: leave at once where the memory can be handed to the next worker.
  standsBy @8 :Bool;
  # With goOn: the worker may have its node start a standby, which makes the
  # session's objects before this snapshot is taken, or meanwhile.
}
struct Checkpointing {
  order @0 :UInt64;
  # The order of the checkpoint.
  phase @1 :Phase;

  enum Phase {
    copying @0;
    # The worker copies memory and executes calls.
    stopping @1;
    # The worker executes no further calls.
    resting @2;
    # The devices are at rest, and the worker writes the rest of the state.
    completing @3;
    # For a snapshot: what the state is was fixed at the progress that was told
    # last. The worker executes calls again, and writes what its devices keep.
  }
}
struct Checkpointed {
  position @0 :UInt64;
  # All calls before this number are done and answered, and no later one began.
  bytes @1 :UInt64;
  # The size of the state's file.
  answers @2 :UInt64;
  # The number of answers in this epoch. The state is valid for the client once
  # all of them have arrived.
  pauseNs @3 :UInt64;
  # How long the devices were at rest for it.
  order @4 :UInt64;
  # The order that it answers.
  onDisk @5 :Bool;
  # Whether the state is in the order's second file.
  processCheckpointed @6 :Bool;
  # Whether there is no file, because the worker's process was checkpointed,
  # with its GPUs' memory on its host.
  delayedNs @7 :UInt64;
  # How long the threads that copied waited for a processor of the worker's
  # host. Others have waited about as long for them.
  leaves @8 :Bool;
  # Whether the session leaves with this state, as mayLeave permits.
}
struct Differs {
  calls @0 :List(UInt64);
  # The first few call numbers.
  total @1 :UInt64;
  # The number of such calls since this worker began.
  fails @2 :Bool;
  # Whether the program gets an error for it (Wire.Divergence).
  first @3 :Text;
  # How the first short result differs, for people. Empty: only digests tell.
}

struct Attach {
  token @0 :UInt64;
  answersSeen @1 :UInt64;
  # Answers up to this number arrived. The worker sends later ones again.
  replayUntil @2 :UInt64;
  # An earlier worker served the calls before this number. Of these, the worker
  # answers only the waiting ones.
  waiting @3 :List(Waiting);
  restore @4 :UInt64;
  # The size of the state (state.capnp) to begin with, or zero. The state comes
  # as the fifth descriptor, or the worker requests it (stateWanted). Memory
  # that the state lends comes as the sixth descriptor.
  charged @5 :UInt64;
  # Calls before this number are in the session's account already. Executing
  # them again is not charged.
  adopt @6 :Bool;
  # Whether the worker owns the state's file from the answer on, and may use it
  # as its memory.
  processCheckpointed @7 :Bool;
  # Whether the worker's process is checkpointed, and stays so until goOn.
  opensFiles @8 :Bool;
  # Whether the last descriptor is a socket at which the client opens files of
  # the program for the worker.
  onDivergence @9 :Wire.Divergence;
  # What the program gets when the replay gives other results than it has read.
  covered @10 :UInt64;
  # What the message `covered` says.
}
struct Waiting {
  call @0 :UInt64;
  slot @1 :UInt32;
}
struct Range {
  from @0 :UInt64;
  to @1 :UInt64;
}
struct Keepalive {
  sent @0 :UInt64;
  # The end of the sent log. A worker that has received less has lost calls.
  answersSeen @1 :UInt64;
}
struct Progress {
  received @0 :UInt64;
  executed @1 :UInt64;
  stickyError @2 :UInt32;
  calls @3 :UInt64;
  # The number of calls executed since this worker began.
  answers @4 :UInt64;
  # The number of answers since this worker began.
  acknowledged @5 :UInt64;
  # Answers up to this number arrived at some client of this epoch. The worker
  # does not send them again, so a restarted client continues from here.
  charged @6 :UInt64;
  # Calls before this number are in the session's account.
  busy @7 :Data;
  # For each device, how many percent of the last second it worked.
  secondPort @8 :UInt16;
  # In `attached`: the worker's port for a second connection of its client, or
  # 0.
  servedCalls @9 :UInt64;
  # The number of calls that this worker itself has executed.
  servedNs @10 :UInt64;
  # For how long it was busy with them.
  deviceNs @11 :UInt64;
  # For how long its devices worked.
  compares @12 :Bool;
  # Whether the worker still compares the results of a replay, and answers
  # nothing before it has.
  seal @13 :SealOffer;
  # In `attached`, where the worker has keys: takes the place of secondPort.
}
struct SealOffer {
  # A connection whose messages are sealed by AES-256-GCM. It is a secret, and
  # this connection is encrypted. A later offer replaces it.
  port @0 :UInt16;
  # The worker's port for it, or 0: there is no offer.
  ticket @1 :Data;
  # 16 bytes that open one connection to the port.
  key @2 :Data;
  # 32 bytes.
}
struct Answer {
  number @0 :UInt64;
  # 1, 2, 3, ... in this epoch.
  call @1 :UInt64;
  slot @2 :UInt32;
  result @3 :UInt32;
  # A CUresult.
  value @4 :UInt64;
  # The call's 64-bit result (calls.hpp).
  union {
    none @5 :Void;
    arena @6 :UInt64;
    # The payload goes to this offset of the reply arena.
    host @7 :UInt64;
    # The payload goes to this address of the host window.
    output @8 :UInt64;
    # The payload is text for the program's standard output; the number is its
    # position.
    error @9 :UInt64;
    # The same for its standard error.
    hostCall @10 :Void;
    # This is not yet the answer: the program runs the host function that waits
    # in this slot.
    zeroCopy @12 :Void;
    # This answers no call: the payload is what kernels wrote into host memory
    # that they use in place (schema/log/changed_lines.hpp).
    times @13 :Void;
    # This answers no call: the payload is when traced work was executed
    # (schema/log/work_times.hpp).
  }
  digest @11 :UInt32;
  # The digest of all bytes that the call brings to the program, for the log, or
  # 0.
}
