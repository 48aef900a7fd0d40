// A process's side of ZeroMQ, as an actor.
#pragma once

#include "actors/link/codec.hpp"
#include "actors/link/curve_keys.hpp"
#include "actors/link/frames.hpp"
#include "actors/link/link_actor.hpp"
#include "actors/link/protocol.hpp"
#include "actors/link/seal/frame_seal.hpp"
#include "schema/base/fault.hpp"

#include <caf/all.hpp>

#include <memory>
#include <optional>
#include <string>

namespace vgpu {

/// Holds what an end of a sealed connection needs.
struct sealed_way {
  seal_offer offer;
  seal_subject subject;
};

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
  /// Holds the keys, or null. A link that binds and has link_keys::permitted
  /// admits nobody else, and tells of each message who sent it. Its context
  /// needs a key_guard.
  std::shared_ptr<const link_keys> keys;
  /// Holds other keys that a link which connects may have to use, or null. It
  /// prefers them, as after link_rekey.
  std::shared_ptr<const link_keys> next_keys;
  /// Makes it stay with the keys by which it connected first.
  bool settles = false;
  /// Makes a link that connects use a sealed port, in place of keys.
  std::optional<sealed_way> sealed;
  /// Is a descriptor that listens at the endpoint already, which the link takes
  /// over; -1: the link makes one.
  int listens_on = -1;
  /// Is put before the names of peers where it is not empty, so that no two
  /// sockets have a peer of the same name.
  std::string mark;
};

/// Describes an open link, and the endpoint at which it listens or to which it
/// connects. For a bound port of `*`, the endpoint has the real port.
struct open_link {
  link_actor actor;
  std::string endpoint;
};

/// Opens the socket and spawns the actor that owns it. The actor is detached:
/// its thread sleeps until the socket or the mailbox has something.
///
/// Send it its consumer; before that it reads nothing. It never blocks on a
/// slow peer. It logs a message that it cannot read, and answers it with a
/// refusal where an answer is due.
///
/// Stop it with an exit message: it first hands the messages that it took to
/// ZeroMQ. `zmq` must outlive the actor. Fails when the endpoint is malformed,
/// too long, in use, or not of this host, and the reason names it.
result<open_link> spawn_link(caf::actor_system& system, zmq::context_t& zmq,
                             link_options options);

/// Describes an open raw link, as open_link does.
struct open_raw_link {
  raw_link_actor actor;
  std::string endpoint;
};

/// Does what spawn_link() does, for a link that leaves messages as they are.
result<open_raw_link> spawn_raw_link(caf::actor_system& system,
                                     zmq::context_t& zmq, link_options options);

/// Returns the handle by which a link reaches a thread that is no actor and
/// receives through `self`.
control_consumer consumer_of(const caf::scoped_actor& self);

} // namespace vgpu
