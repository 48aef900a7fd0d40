// Converts control-plane values to and from schema/wire/wire.capnp.
#pragma once

#include "actors/link/frames.hpp"
#include "actors/link/protocol.hpp"
#include "schema/base/fault.hpp"

namespace vgpu::control {

/// Returns one ZeroMQ frame that holds `what`. Thread-safe.
zmq::message_t encode(const envelope& what);

/// Says why a message could not be read, and which request it was.
struct unreadable {
  std::string why;
  /// Holds the request that waits for an answer, or 0 if there is none or it is
  /// unknown.
  std::uint64_t request = 0;
};

/// Returns the message in `in`, or why it cannot be read: it is truncated,
/// malformed, larger than its own pointers allow, or of an unknown kind or
/// value. Never throws because of what a peer sent. Thread-safe.
std::variant<envelope, unreadable> decode(const parcel& in);

} // namespace vgpu::control
