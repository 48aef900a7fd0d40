// The typed handle of a link that renews its key. The behaviour is in
// renewing_link.hpp.
#pragma once

#include "actors/link/link_actor.hpp"

#include <caf/all.hpp>

namespace vgpu {

/// Is a link whose key is renewed. To its consumer it is a link_actor, and to
/// its own link it is the consumer.
using renewing_link_actor = caf::typed_actor<
    // The owner of the link names who listens to it.
    caf::reacts_to<control_consumer>,
    // The consumer sends a message.
    caf::reacts_to<outgoing_ptr>,
    // The consumer is about to judge by what it has not heard.
    caf::reacts_to<link_look>,
    // The process has other keys.
    caf::reacts_to<link_rekey>,
    // Its link read a message.
    caf::reacts_to<incoming_ptr>,
    // The connection of its link changed.
    caf::reacts_to<link_event_ptr>,
    // It tries again to keep a key.
    caf::reacts_to<caf::tick_atom>>;

} // namespace vgpu
