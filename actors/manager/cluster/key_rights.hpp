// What a peer may say to a manager whose links have keys.
#pragma once

#include "actors/link/permitted_keys.hpp"
#include "actors/link/protocol.hpp"
#include "schema/base/fault.hpp"

#include <optional>
#include <string>

namespace vgpu {

/// Returns the message as of whom the key names: with the sender's name that
/// follows from it, in a role that it may have, and with the principal and the
/// scope of what it may be about. Fails where this principal may not say that,
/// whatever the peer says that it is.
///
/// | principal | role in hello | name |
/// | --- | --- | --- |
/// | node | node | node/NAME |
/// | tenant | client, command | client/NAME/..., command/NAME/... |
/// | admin | client, command | client/NAME/..., command/NAME/... |
/// | newcomer | | |
///
/// The table of messages (control::senders) says which keys may say what, and
/// about whose sessions.
result<control::envelope> as_principal(const principal_ptr& who,
                                       const control::envelope& said);

/// Returns the tenant to whose sessions a message is confined; unset: it may be
/// about all.
std::optional<std::string> confined_to(const control::envelope& said);

/// Returns whether a message may be about the sessions of a tenant. If not, the
/// answer must be the same as if there were no such session.
bool may_reach(const control::envelope& said, const std::string& tenant);

/// Returns the key that the sender proved, or its tenant; empty: it has no key.
std::string proven_key(const control::envelope& said);
std::string proven_tenant(const control::envelope& said);

} // namespace vgpu
