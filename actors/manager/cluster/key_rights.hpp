// What a peer may say to a manager whose links have keys.
#pragma once

#include "actors/link/permitted_keys.hpp"
#include "actors/link/protocol.hpp"
#include "schema/base/fault.hpp"

namespace vgpu {

/// Returns the message as of whom the key names: with the sender's name that
/// follows from it, in a role that it may have, and in acquire and adopt with
/// the key and its tenant. Fails where this principal may not say that,
/// whatever the peer says that it is.
///
/// | principal | role in hello | name |
/// | --- | --- | --- |
/// | node | node | node/NAME |
/// | tenant | client | client/NAME/... |
/// | admin | client, command | client/NAME/..., command/NAME/... |
/// | newcomer | | |
///
/// The table of messages (control::senders) says which keys may say what.
result<control::envelope> as_principal(const principal& who,
                                       const control::envelope& said);

} // namespace vgpu
