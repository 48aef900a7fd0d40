// The messages and typed handles of links and of the actors that receive from a
// link. The behaviour is in link.hpp and managers/leader_link.hpp.
#pragma once

#include "actors/link/curve_keys.hpp"
#include "actors/link/frames.hpp"
#include "actors/link/protocol.hpp"

#include <caf/all.hpp>

#include <memory>
#include <string>

namespace vgpu {

/// Describes a control-plane message that arrived. `peer` is parcel::peer(),
/// and `who` is parcel::who().
struct incoming {
  std::string peer;
  control::envelope what;
  principal_ptr who = nullptr;
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
    /// A connecting link found no listener. It reports this at each attempt.
    unreachable,
    /// The link dropped a message to `peer` because the peer's queue is full.
    overrun,
    /// Everything that had arrived when the consumer asked to look was passed
    /// on. `peer` is empty.
    looked,
    /// Keys were revoked, and the connections of their peers end. Only a link
    /// that binds reports it. `peer` is empty.
    revoked,
    /// A connecting link has another connection, with its next keys, and uses
    /// no former ones any more. `down` and `up` follow.
    rekeyed,
  };
  kind what = kind::up;
  std::string peer;
};
using link_event_ptr = std::shared_ptr<const link_event>;

/// Listens to a control link: the manager, a supervisor, a worker, a client, or
/// a command.
using control_consumer = caf::typed_actor<
    // The link read a message of a peer.
    caf::reacts_to<incoming_ptr>,
    // A connection of the link changed.
    caf::reacts_to<link_event_ptr>>;

/// Listens to a raw link.
using raw_consumer = caf::typed_actor<
    // The link received a message of a peer, whatever is in it.
    caf::reacts_to<parcel_ptr>,
    // A connection of the link changed.
    caf::reacts_to<link_event_ptr>>;

/// Asks a link to pass on all that has arrived, and then to report
/// link_event::kind::looked to `asks`.
struct link_look {
  control_consumer asks;
};

/// Gives a control link its next keys. One that connects opens another
/// connection with them, and changes to it once it stands. One that binds
/// serves both keys, until a link_rekey without keys ends the former ones, and
/// the connections that were made with them.
struct link_rekey {
  std::shared_ptr<const link_keys> keys;
};

/// Sends and receives control-plane messages.
using link_actor = caf::typed_actor<
    // The owner of the link names who listens to it. Before that the link reads
    // nothing.
    caf::reacts_to<control_consumer>,
    // The consumer sends a message to a peer.
    caf::reacts_to<outgoing_ptr>,
    // The consumer is about to judge by what it has not heard.
    caf::reacts_to<link_look>,
    // The process has other keys.
    caf::reacts_to<link_rekey>>;

/// Sends and receives messages without reading them.
using raw_link_actor = caf::typed_actor<
    // The owner of the link names who listens to it. Before that the link reads
    // nothing.
    caf::reacts_to<raw_consumer>,
    // The consumer sends a message to a peer.
    caf::reacts_to<dispatch_ptr>>;

/// Is a link to the leader among several managers. To its consumer it is a
/// link_actor, and to the links to each manager it is the consumer.
using leader_link_actor = caf::typed_actor<
    // The owner of the link names who listens to it.
    caf::reacts_to<control_consumer>,
    // The consumer sends a message to the leading manager.
    caf::reacts_to<outgoing_ptr>,
    // The consumer is about to judge by what it has not heard.
    caf::reacts_to<link_look>,
    // The process has other keys.
    caf::reacts_to<link_rekey>,
    // The link to one of the managers read a message.
    caf::reacts_to<incoming_ptr>,
    // The connection to one of the managers changed.
    caf::reacts_to<link_event_ptr>>;

} // namespace vgpu

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::parcel_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::dispatch_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::incoming_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::outgoing_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::link_event_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::link_look)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::link_rekey)
