// Cap'n Proto in ZeroMQ frames. This file knows nothing of actors.
#pragma once

#include "actors/link/permitted_keys.hpp"
#include "actors/link/printable.hpp"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <zmq.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace vgpu {

/// Gives the limit on a frame, in bytes. A link disconnects a peer that sends a
/// larger one.
inline constexpr std::size_t largest_frame = std::size_t{16} << 20;

/// A parcel is one received message: a Cap'n Proto message and optionally a
/// payload, which lies in the rest of the same frame or in a frame of its own.
/// It is immutable, so that actors may share it. Each reader makes its own
/// capnp::FlatArrayMessageReader over words(), because a reader counts what it
/// reads (see read_limits()).
class parcel {
public:
  parcel(std::string peer, zmq::message_t head, zmq::message_t bulk,
         principal_ptr who = nullptr);
  parcel(const parcel&) = delete;
  parcel& operator=(const parcel&) = delete;

  /// Returns the sender: the ROUTER's name of the connection, or, in a link
  /// that connects, the endpoint that it is connected to.
  const std::string& peer() const noexcept { return peer_; }

  /// Returns whom the sender's key names. Null where the link has no keys.
  const principal_ptr& who() const noexcept { return who_; }

  /// Returns the message, aligned to words, or what has arrived of a message
  /// that claims to be longer. A payload in the same frame is aligned too.
  kj::ArrayPtr<const capnp::word> words() const noexcept { return words_; }

  std::span<const std::byte> bulk() const noexcept { return payload_; }

private:
  std::string peer_;
  principal_ptr who_;
  zmq::message_t head_;
  zmq::message_t bulk_;
  /// Is empty when head_ was aligned already.
  kj::Array<capnp::word> aligned_;
  kj::ArrayPtr<const capnp::word> words_;
  std::span<const std::byte> payload_;
};

using parcel_ptr = std::shared_ptr<const parcel>;

/// Describes one outgoing message, whose frames the link moves out. `peer` is
/// the receiver's parcel::peer(). A link that connects ignores it.
struct dispatch {
  std::string peer;
  zmq::message_t head;
  zmq::message_t bulk;
};

using dispatch_ptr = std::shared_ptr<dispatch>;

/// Returns limits for reading a message from another process: no message makes
/// the reader read more than a few times its own size, or nest deeply.
capnp::ReaderOptions read_limits(const parcel& in);

/// Writes the message into a new frame. This is the only copy that this process
/// makes of it.
zmq::message_t to_frame(capnp::MessageBuilder& message);

/// Lends `bytes` to ZeroMQ, which drops `owner` once they are on the wire.
zmq::message_t lend_frame(std::span<const std::byte> bytes,
                          std::shared_ptr<const void> owner);

/// Gives the size from which a payload gets a frame of its own.
inline constexpr std::size_t lent_from = 8192;

/// Gives the size from which payloads alternate between two connections, if
/// there are two.
inline constexpr std::size_t striped_from = std::size_t{128} << 10;

/// Puts a message and its payload into the frames of `out`. It copies a short
/// payload behind the message, because each further frame costs some cache
/// lines that two threads on each side hand over. It lends a long payload as
/// lend_frame() does.
void put_frames(dispatch& out, std::span<const std::uint64_t> message,
                std::span<const std::byte> payload = {},
                std::shared_ptr<const void> owner = {});

/// Makes malloc keep the memory of frames and answers for reuse, instead of
/// giving large blocks back to the kernel, which clears the pages of each new
/// one. It is for a process through which bulk data passes. Call it before the
/// process starts threads.
void reuse_frames_memory();

} // namespace vgpu
