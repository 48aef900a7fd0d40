@0x86c4fa479b943193;
# The guest channel, between the interposer (in the program's process) and
# vgpu-client: a Unix SEQPACKET socket with one message per packet. The guest's
# hello carries file descriptors: control area, log, host memory, doorbell (an
# eventfd), and the places for snapshots (snapshot_files.hpp), two in memory and
# two on a disk. After the welcome, both sides use shared memory. The socket
# stays open, so that each side notices when the other one ends.

using Cxx = import "/capnp/c++.capnp";
using Wire = import "wire.capnp";
$Cxx.namespace("vgpu::wire");

struct GuestHello {
  version @0 :UInt16 = 1;
  program @1 :Wire.Program;
  specification @2 :Wire.Specification;
  resumed @3 :Bool;
  # The areas hold a running session, whose client died. The ticket in the
  # control area names the session.
  hearsWaiting @4 :Bool;
  # The program accepts welcomes with `waiting`.
  watches @5 :Bool;
  # The program wants no vGPU. It asks which programs of its group have which
  # vGPUs. It sends no descriptors, and its specification needs only the group.
  # It gets one answer.
}

struct GuestWelcome {
  version @0 :UInt16 = 1;
  union {
    refused @1 :Wire.Refusal;
    granted @2 :Granted;
    waiting @3 :Text;
    # The reason why there is no place yet. Another welcome follows.
    watched @4 :Watched;
  }
}

struct Watched {
  # The vGPUs of a group that this client serves.
  devices @0 :List(Wire.DeviceFacts);
  # Each device once, by its UUID.
  uses @1 :List(WatchedUse);
}
struct WatchedUse {
  # A program's use of a device.
  device @0 :UInt32;
  # An index into `devices`.
  pid @1 :UInt32;
  quota @2 :UInt64;
  used @3 :UInt64;
  # In bytes.
  busy @4 :UInt8;
  # How many percent of the last second the device worked for it.
}

struct Granted {
  session @0 :UInt64;
  vgpu @1 :UInt64;
  quota @2 :UInt64;
  # Bytes per device.
  devices @3 :List(Wire.DeviceFacts);
}

struct GuestNotice {
  # guest -> client, any time after the welcome.
  union {
    journalFills @0 :UInt64;
    # The log reached this many bytes and needs to be trimmed.
    unused @1 :Void;
    shares @2 :Void;
    # The program shares memory or events with another process, and has lowered
    # its protection, because two logs cannot be replayed in one order.
  }
}
