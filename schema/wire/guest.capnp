@0x86c4fa479b943193;
# Between the interposer (in the program's process) and vgpu-client, over a
# Unix SEQPACKET socket: one message a packet. The guest's hello carries file
# descriptors: control area, log, host memory, doorbell (an eventfd), and the
# places for snapshots (snapshot_files.hpp): two in memory, two on a disk.
# After the welcome everything goes through shared memory; the socket stays
# open, and its closing is how each side learns of the other's death.

using Cxx = import "/capnp/c++.capnp";
using Wire = import "wire.capnp";
$Cxx.namespace("vgpu::wire");

struct GuestHello {
  version @0 :UInt16 = 1;
  program @1 :Wire.Program;
  specification @2 :Wire.Specification;
  resumed @3 :Bool;
  # The areas hold a session that runs already: its client died. The ticket in
  # the control area tells which.
  hearsWaiting @4 :Bool;
  # It takes welcomes that say `waiting`.
  watches @5 :Bool;
  # It wants no vGPU, but to know who of its group has which. It hands nothing
  # over, and of its specification the group alone counts. Answered once.
}

struct GuestWelcome {
  version @0 :UInt16 = 1;
  union {
    refused @1 :Wire.Refusal;
    granted @2 :Granted;
    waiting @3 :Text;
    # Why there is no place yet; another welcome follows.
    watched @4 :Watched;
  }
}

struct Watched {
  # The vGPUs of a group, as far as this client serves them.
  devices @0 :List(Wire.DeviceFacts);
  # Each once, by its UUID.
  uses @1 :List(WatchedUse);
}
struct WatchedUse {
  # What a program has of a device.
  device @0 :UInt32;
  # An index into `devices`.
  pid @1 :UInt32;
  quota @2 :UInt64;
  used @3 :UInt64;
  # Bytes.
  busy @4 :UInt8;
  # How many percent of the last second the device worked for it.
}

struct Granted {
  session @0 :UInt64;
  vgpu @1 :UInt64;
  quota @2 :UInt64;
  # Bytes a device.
  devices @3 :List(Wire.DeviceFacts);
}

struct GuestNotice {
  # guest -> client, any time after the welcome.
  union {
    journalFills @0 :UInt64;
    # The log reached this many bytes: it needs to be trimmed.
    unused @1 :Void;
    shares @2 :Void;
    # It shares memory or events with another process, and has lowered its
    # protection: two logs cannot be replayed in one order.
  }
}
