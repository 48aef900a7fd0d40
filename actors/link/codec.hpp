// Control-plane values to and from schema/wire/wire.capnp.
#pragma once

#include "actors/link/frames.hpp"
#include "actors/link/protocol.hpp"
#include "schema/base/fault.hpp"

namespace vgpu::control {

/// One ZeroMQ frame that holds `what`. Thread-safe.
zmq::message_t encode(const envelope& what);

/// Why a message could not be read, and what is known of it all the same.
struct unreadable {
  std::string why;
  /// The request that waits for an answer, or 0 (also when not known).
  std::uint64_t request = 0;
};

/// The message in `in`, or why it is none: truncated, malformed, larger than
/// its own pointers allow, of a kind or a value unknown here. Never throws on
/// account of what a peer sent. Thread-safe.
std::variant<envelope, unreadable> decode(const parcel& in);

} // namespace vgpu::control
