@0xb6f1d0c9a27e4d15;
# A vGPU's state at a call: what a worker needs to go on from there, on any
# device that gives back the addresses and values in it. The document is the
# index of a file (actors/state/state_file.hpp):
#
#   | header, 64 bytes | chunks, one behind the other | State, this document |
#
# header: magic "VGPUSTAT", major u32, minor u32, the document's place u64,
# bytes u64 and hash u64, the file's bytes u64, zero u64, hash of all that u64.
# It is written last: a file that was not finished has none. Hashes are
# XXH3-64. A reader takes its own major version alone, and ignores fields of
# newer minor versions, as Cap'n Proto does.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("vgpu::wire");

struct State {
  position @0 :UInt64;
  # The call number it stands at: all calls before are done and answered.
  calls @1 :UInt64;
  # Executed so far, for the count that users see.
  consoles @2 :List(UInt64);
  # Bytes of text written to each console (console.hpp).
  devices @3 :UInt32;
  # Of the session. Devices in calls and events are ordinals below this.
  images @4 :List(StateImage);
  # All that the program published, in any order.
  living @5 :List(LivingCall);
  # In the order of their numbers. Executed again, they make every object that
  # exists: modules with those unloaded, as these decide where others lie.
  globals @6 :List(StateGlobal);
  # Where the living modules' variables must come to lie.
  memory @7 :List(StateChunk);
  # Contents of allocations, arrays, variables, wherever they lie, and, of a
  # program elsewhere, host memory. What neither a chunk nor `lent` names is zero.
  events @8 :List(EventTime);
  # Events that were recorded; the others never were.
  placed @9 :List(PlacedMemory);
  # Contents of memory that the program places by itself, mapped or not.
  lent @10 :List(LentMemory);
  # Device memory that is handed over in place of being copied: to a worker of
  # the same host, with a descriptor for each, in this order.
}

struct LivingCall {
  number @0 :UInt64;
  message @1 :Data;
  # A Call (data.capnp), as it lay in the log; a multiple of 8 bytes.
}

struct StateImage {
  digestLow @0 :UInt64;
  digestHigh @1 :UInt64;
  bytes @2 :UInt64;
  chunks @3 :List(StateChunk);
  # Their addresses are offsets in the image.
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
  # Bytes in the file,
  offset @4 :UInt64;
  # from here on.
  hash @5 :UInt64;
  # Of the contents, not of what is stored.

  enum Form {
    zero @0;
    raw @1;
    zstd @2;
  }
}

struct PlacedMemory {
  device @0 :UInt32;
  memory @1 :UInt64;
  # As memory_create named it (calls.hpp).
  chunks @2 :List(StateChunk);
  # Their addresses are offsets in the memory, and grow. What no chunk names is
  # zero.
}

struct LentMemory {
  device @0 :UInt32;
  address @1 :UInt64;
  # Where its first byte was,
  bytes @2 :UInt64;
  # and how many there are: whole granules. What of it was allocated, and is no
  # array, is the contents there.
}

struct EventTime {
  device @0 :UInt32;
  event @1 :UInt64;
  milliseconds @2 :Float64;
  # Before the state was taken.
  timed @3 :Bool;
}
