// A process's side of ZeroMQ, as an actor.
#pragma once

#include "actors/link/codec.hpp"
#include "actors/link/frames.hpp"
#include "actors/link/protocol.hpp"
#include "schema/base/fault.hpp"

#include <caf/all.hpp>

#include <memory>
#include <optional>
#include <string>

namespace vgpu {

/// A control-plane message that came in. `peer` is parcel::peer().
struct incoming {
  std::string peer;
  control::envelope what;
};
using incoming_ptr = std::shared_ptr<const incoming>;

/// A control-plane message to send. `peer` as in dispatch.
struct outgoing {
  std::string peer;
  control::envelope what;
};
using outgoing_ptr = std::shared_ptr<const outgoing>;

/// What a link tells its consumer about connections.
struct link_event {
  enum class kind {
    /// Connecting link: the connection stands (again), and the greeting, if
    /// any, was sent. What was sent while it was down is lost.
    up,
    /// The connection to `peer` is gone. A connecting link tries again by
    /// itself; in a binding one the peer comes back under another name.
    down,
    /// Connecting link: nobody listens there (told at each attempt).
    unreachable,
    /// A message to `peer` was dropped because its queue is full.
    overrun,
  };
  kind what = kind::up;
  std::string peer;
};
using link_event_ptr = std::shared_ptr<const link_event>;

struct link_options {
  enum class form {
    bind,   // a ROUTER that others connect to
    connect // a DEALER that connects, and does so again when it must
  };
  form as = form::connect;
  /// tcp://HOST:PORT or ipc://PATH; to bind, the port may be `*`.
  std::string endpoint;
  /// Whose link this is, for the log and as sender of what it says by itself:
  /// `manager`, `node/a`.
  std::string name;
  /// Whether messages are control-plane envelopes (consumer gets incoming_ptr)
  /// or left alone (consumer gets parcel_ptr).
  bool control = true;
  /// Connecting control link: the first message on each connection.
  std::optional<control::hello> greeting;
  /// Messages queued for one peer, in each direction, before any is dropped.
  int high_water = 10'000;
  /// The context's thread that its connections belong to; any, if unset.
  std::optional<unsigned> io_thread;
  /// To bind over TCP: a second port of the same address, whose connections
  /// belong to the next thread.
  bool second_port = false;
  /// Larger frames disconnect who sends them. Bytes.
  std::size_t largest_frame = vgpu::largest_frame;
};

/// A link that stands, and where it listens or connects to: for a bound port
/// of `*`, the endpoint with the real port.
struct open_link {
  caf::actor actor;
  std::string endpoint;
};

/// Opens the socket and spawns the actor that owns it, detached: one thread,
/// which sleeps until the socket or the mailbox has something.
///
/// It reads nothing until it was told, with (caf::actor), who its consumer is.
/// From then on the consumer gets incoming_ptr or parcel_ptr for what arrives,
/// and link_event_ptr. The link takes outgoing_ptr and dispatch_ptr, and never
/// blocks on a slow peer. A control link answers what it cannot read with a
/// refusal where an answer is due, and logs it.
///
/// Stop it with an exit message; what it had taken is handed to ZeroMQ before.
/// `zmq` must outlive the actor. Fails when the endpoint is malformed, too
/// long, in use, or not of this host; the reason names it.
result<open_link> spawn_link(caf::actor_system& system, zmq::context_t& zmq,
                             link_options options);

} // namespace vgpu

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::parcel_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::dispatch_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::incoming_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::outgoing_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::link_event_ptr)
