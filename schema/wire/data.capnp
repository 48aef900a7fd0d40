@0xa1eda2d7a08c7a3d;
# The data plane: a session's calls. A call is one message of type Call; in the
# log it is one record (call_log.hpp). Between a client and a worker that
# cannot map the log, ranges of the log travel as they are: a DataHead, and raw
# bytes where the head announces some, behind it in one frame or, where they are
# many, in a frame of their own.

using Cxx = import "/capnp/c++.capnp";
using Wire = import "wire.capnp";
$Cxx.namespace("vgpu::wire");

struct Call {
  function @0 :UInt16;
  # vgpu::call::number; never reused for another meaning.
  device @1 :UInt8;
  # Of the session's devices.
  arguments @2 :List(UInt64);
  # In the order of the call's struct in calls.hpp.
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
    # The session is over.

    # worker -> client
    attached @6 :Progress;
    # Go on sending from `received`: the answer to attach, and sent unasked
    # when calls were lost on the way.
    answer @7 :Answer;
    # Payload: what was read, if anything.
    progress @8 :Progress;
    refused @9 :Text;

    # a session that moves (actors/README.md, "Moving a session")
    checkpoint @10 :Checkpoint;
    # client -> worker: stop at a call, and describe what there is.
    goOn @11 :Void;
    # client -> worker: the state is not wanted after all.
    checkpointed @12 :Checkpointed;
    # worker -> client: it has stopped. A client on the same host gets the
    # state's file with this, and, where the state lends memory, a parcel of its
    # descriptors (actors/lend/descriptor_parcel.hpp).
    notCheckpointed @13 :Text;
    # worker -> client: it goes on, for this reason.
    stateWanted @14 :Range;
    # Both ways: send these bytes of the state's file.
    statePart @15 :UInt64;
    # Both ways; the payload is the file's bytes from here on.
    differs @16 :Differs;
    # worker -> client: what a replay brought differently.
    checkpointing @17 :Checkpointing;
    # worker -> client: how far it is with a checkpoint.
    back @18 :Void;
    # worker -> client: its process was checkpointed, and is on its GPUs again.
    join @19 :UInt64;
    # client -> worker, by a second connection: the lease's token. From then on
    # long answers come by either. worker -> client, by that: calls may go by it.
  }
}

struct Checkpoint {
  compress @0 :Bool;
  # The state will travel.
  goOn @1 :Bool;
  # A snapshot: go on as soon as the state is described. A client on the same
  # host sends the file for it along, and perhaps one on a disk.
  order @2 :UInt64;
  # Grows with each order of a client; what was made for one that was given up
  # is known by it.
  inMemory @3 :UInt64;
  # A session with more bytes of device memory is described on the disk.
  lendTo @4 :List(UInt32);
  # Not empty: these pGPUs of this host take the session up, one for each of its
  # devices. Its memory may be handed over in place of being copied.
  mayCheckpointProcess @5 :Bool;
  # Where it cannot be described, the driver may checkpoint the worker's whole
  # process.
}
struct Checkpointing {
  order @0 :UInt64;
  # The checkpoint's.
  phase @1 :Phase;

  enum Phase {
    copying @0;
    # Memory is copied, calls are executed.
    stopping @1;
    # No further call is executed.
    resting @2;
    # Its devices stand still, and what is left is written.
  }
}
struct Checkpointed {
  position @0 :UInt64;
  # All calls before it are done and answered, none after it was begun.
  bytes @1 :UInt64;
  # Of the state's file.
  answers @2 :UInt64;
  # Given in this epoch: the state counts once they have all arrived.
  pauseNs @3 :UInt64;
  # How long its devices stood still for it.
  order @4 :UInt64;
  # That it is made for.
  onDisk @5 :Bool;
  # In the second file that came with the order.
  processCheckpointed @6 :Bool;
  # There is no file: the process waits, with its GPUs' memory on its host.
}
struct Differs {
  calls @0 :List(UInt64);
  # Call numbers, the first few.
  total @1 :UInt64;
  # Since this worker began.
}

struct Attach {
  token @0 :UInt64;
  answersSeen @1 :UInt64;
  # Answers up to this number arrived; what came after is sent again.
  replayUntil @2 :UInt64;
  # Calls before this number were served by an earlier worker: of these, only
  # the waiting ones want an answer.
  waiting @3 :List(Waiting);
  restore @4 :UInt64;
  # Not zero: begin with a state (state.capnp) of so many bytes, which comes as
  # the fifth descriptor, or for the asking; memory that it lends, as a sixth.
  charged @5 :UInt64;
  # Calls before this number are in the session's account already: what they
  # take now is not charged.
  adopt @6 :Bool;
  # The state's file is the worker's from the answer on, and may be its memory.
  processCheckpointed @7 :Bool;
  # A checkpointed process stays so until goOn.
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
  # How far the log was sent: a worker that has received less lost some.
  answersSeen @1 :UInt64;
}
struct Progress {
  received @0 :UInt64;
  executed @1 :UInt64;
  stickyError @2 :UInt32;
  calls @3 :UInt64;
  # Executed since this worker began.
  answers @4 :UInt64;
  # Given since this worker began.
  acknowledged @5 :UInt64;
  # Answers up to this number arrived at some client of this epoch, and are
  # not sent again: a client that follows another goes on from here.
  charged @6 :UInt64;
  # Calls before this number are in the session's account.
  busy @7 :Data;
  # Of each device, how many percent of the last second it worked.
  secondPort @8 :UInt16;
  # In `attached`: where it takes a second connection of its client; 0: nowhere.
}
struct Answer {
  number @0 :UInt64;
  # 1, 2, 3, ... in this epoch.
  call @1 :UInt64;
  slot @2 :UInt32;
  result @3 :UInt32;
  # CUresult
  value @4 :UInt64;
  # What the call returns in 64 bits (calls.hpp).
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
    # Not an answer yet: run the host function that waits in this slot.
    zeroCopy @12 :Void;
    # Answers nobody: the payload is what kernels wrote into host memory that they
    # use in place (schema/log/changed_lines.hpp).
  }
  digest @11 :UInt32;
  # Of all bytes that the call brings, to be kept in the log; 0: none.
}
