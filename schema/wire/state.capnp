@0xb6f1d0c9a27e4d15;
# A vGPU's state at a call: what a worker needs to continue from there, on any
# device that gives the same addresses and values. The document is the index of
# a file (actors/state/state_file.hpp):
#
#   | header, 64 bytes | chunks, contiguous | State, this document |
#
# Header: magic "VGPUSTAT", major u32, minor u32, the document's offset u64,
# size u64 and hash u64, the file's size u64, zero u64, hash of all that u64.
# The header is written last, so an unfinished file has none. Hashes are
# XXH3-64. A reader accepts only its own major version, and ignores fields of
# newer minor versions, as Cap'n Proto does.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("vgpu::wire");

struct State {
  position @0 :UInt64;
  # The call number of the state. All calls before it are done and answered.
  calls @1 :UInt64;
  # The number of calls executed so far, which users see.
  consoles @2 :List(UInt64);
  # Bytes of text written to each console (console.hpp).
  devices @3 :UInt32;
  # The number of the session's devices. Calls and events name devices by
  # ordinals below this.
  images @4 :List(StateImage);
  # All images that the program sent, in any order.
  living @5 :List(LivingCall);
  # The calls that make every existing object, in the order of their numbers.
  # They include unloaded modules, which decide where later modules lie.
  globals @6 :List(StateGlobal);
  # The addresses that the loaded modules' variables must have.
  memory @7 :List(StateChunk);
  # The contents of allocations, arrays and variables, and, for a program on
  # another host, of host memory. Memory in neither a chunk nor `lent` is zero.
  events @8 :List(EventTime);
  # The events that were recorded.
  placed @9 :List(PlacedMemory);
  # The contents of memory that the program maps by itself, mapped or not.
  lent @10 :List(LentMemory);
  # Device memory that the worker lends to a worker on the same host in place of
  # copying it. Each has a descriptor, in this order.
}

struct LivingCall {
  number @0 :UInt64;
  message @1 :Data;
  # A Call (data.capnp) as in the log. The size is a multiple of 8 bytes.
}

struct StateImage {
  digestLow @0 :UInt64;
  digestHigh @1 :UInt64;
  bytes @2 :UInt64;
  chunks @3 :List(StateChunk);
  # The chunks' addresses are offsets in the image.
}

struct StateGlobal {
  device @0 :UInt32;
  module @1 :UInt64;
  name @2 :Text;
  address @3 :UInt64;
  bytes @4 :UInt64;
}

struct StateChunk {
  address @0 :UInt64;
  bytes @1 :UInt32;
  # At most 2 MiB.
  form @2 :Form;
  stored @3 :UInt32;
  # The number of bytes in the file.
  offset @4 :UInt64;
  # The position of these bytes in the file.
  hash @5 :UInt64;
  # The hash of the contents, before compression.

  enum Form {
    zero @0;
    raw @1;
    zstd @2;
  }
}

struct PlacedMemory {
  device @0 :UInt32;
  memory @1 :UInt64;
  # The memory_id of memory_create (calls.hpp).
  chunks @2 :List(StateChunk);
  # The chunks' addresses are offsets in the memory, in ascending order. Memory
  # in no chunk is zero.
}

struct LentMemory {
  device @0 :UInt32;
  address @1 :UInt64;
  # The address of the first byte.
  bytes @2 :UInt64;
  # The size, in whole granules. It holds the contents of all allocations in its
  # range except arrays.
}

struct EventTime {
  device @0 :UInt32;
  event @1 :UInt64;
  milliseconds @2 :Float64;
  # The time from the record until the state was taken.
  timed @3 :Bool;
}
