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

/// Describes a control-plane message that arrived. `peer` is parcel::peer().
struct incoming {
  std::string peer;
  control::envelope what;
};
using incoming_ptr = std::shared_ptr<const incoming>;

/// Describes a control-plane message to send. `peer` is as in dispatch.
struct outgoing {
  std::string peer;
  control::envelope what;
};
using outgoing_ptr = std::shared_ptr<const outgoing>;

/// Describes a change of connections that a link reports to its consumer.
struct link_event {
  /// Names what happened.
  enum class kind {
    /// A connecting link has its connection (again) and has sent its greeting,
    /// if any. Messages that were sent while it was down are lost.
    up,
    /// The connection to `peer` is lost. A connecting link reconnects by
    /// itself. The peer of a binding link comes back under another name.
    down,
    /// A connecting link found nobody that listens there. It reports this at
    /// each attempt.
    unreachable,
    /// The link dropped a message to `peer` because the peer's queue is full.
    overrun,
  };
  kind what = kind::up;
  std::string peer;
};
using link_event_ptr = std::shared_ptr<const link_event>;

/// Says what a link connects to or binds, and how.
struct link_options {
  /// Names the direction of a link.
  enum class form {
    /// Makes the link a ROUTER that other links connect to.
    bind,
    /// Makes the link a DEALER that connects, and reconnects after a loss.
    connect
  };
  form as = form::connect;
  /// Is tcp://HOST:PORT or ipc://PATH. The port may be `*` in a binding link.
  std::string endpoint;
  /// Names the link's owner, such as `manager` or `node/a`. The link uses it in
  /// the log and as the sender of messages that it sends by itself.
  std::string name;
  /// Selects control-plane envelopes, which the consumer gets as incoming_ptr,
  /// or raw messages, which it gets as parcel_ptr.
  bool control = true;
  /// Holds the first message that a connecting control link sends on each
  /// connection.
  std::optional<control::hello> greeting;
  /// Holds the number of messages queued for one peer, in each direction, above
  /// which the link drops messages.
  int high_water = 10'000;
  /// Holds the I/O thread of the ZeroMQ context that serves the connections.
  /// ZeroMQ chooses one if it is unset.
  std::optional<unsigned> io_thread;
  /// Makes a link that binds over TCP listen on a second port of the same
  /// address, whose connections belong to the next I/O thread.
  bool second_port = false;
  /// Holds the limit on a frame, in bytes. The link disconnects a peer that
  /// sends a larger one.
  std::size_t largest_frame = vgpu::largest_frame;
};

/// Describes an open link, and the endpoint at which it listens or to which it
/// connects. For a bound port of `*`, the endpoint has the real port.
struct open_link {
  caf::actor actor;
  std::string endpoint;
};

/// Opens the socket and spawns the actor that owns it. The actor is detached:
/// its thread sleeps until the socket or the mailbox has something.
///
/// Send it its consumer as (caf::actor); before that it reads nothing. The
/// consumer then gets incoming_ptr or parcel_ptr for each message, and
/// link_event_ptr. The link takes outgoing_ptr and dispatch_ptr, and never
/// blocks on a slow peer. A control link logs a message that it cannot read,
/// and answers it with a refusal where an answer is due.
///
/// Stop it with an exit message: it first hands the messages that it took to
/// ZeroMQ. `zmq` must outlive the actor. Fails when the endpoint is malformed,
/// too long, in use, or not of this host, and the reason names it.
result<open_link> spawn_link(caf::actor_system& system, zmq::context_t& zmq,
                             link_options options);

} // namespace vgpu

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::parcel_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::dispatch_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::incoming_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::outgoing_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::link_event_ptr)
