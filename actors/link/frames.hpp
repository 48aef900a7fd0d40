// Cap'n Proto in ZeroMQ frames. Knows nothing of actors.
#pragma once

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

/// No frame of ours is larger; a peer that sends one is disconnected.
inline constexpr std::size_t largest_frame = std::size_t{16} << 20;

/// One received message: a Cap'n Proto message and, perhaps, a payload, in the
/// rest of its frame or in a frame of its own. Never
/// changes once built, so actors may share it; each reader makes its own
/// capnp::FlatArrayMessageReader over words(), as a reader counts what it
/// reads (see read_limits()).
class parcel {
public:
  parcel(std::string peer, zmq::message_t head, zmq::message_t bulk);
  parcel(const parcel&) = delete;
  parcel& operator=(const parcel&) = delete;

  /// Who sent it: the ROUTER's name of the connection, or, in a link that
  /// connects, the endpoint it is connected to.
  const std::string& peer() const noexcept { return peer_; }

  /// The message, or what there is of one that says it is longer. Its words
  /// lie as words do, and so does a payload in the same frame.
  kj::ArrayPtr<const capnp::word> words() const noexcept { return words_; }

  std::span<const std::byte> bulk() const noexcept { return payload_; }

private:
  std::string peer_;
  zmq::message_t head_;
  zmq::message_t bulk_;
  kj::Array<capnp::word> aligned_; // empty when head_ was aligned already
  kj::ArrayPtr<const capnp::word> words_;
  std::span<const std::byte> payload_;
};

using parcel_ptr = std::shared_ptr<const parcel>;

/// One message on its way out; the link takes the frames out of it. `peer` is
/// parcel::peer() of whom it is for, and not looked at by a link that connects.
struct dispatch {
  std::string peer;
  zmq::message_t head;
  zmq::message_t bulk;
};

using dispatch_ptr = std::shared_ptr<dispatch>;

/// Limits for reading a message that somebody else wrote: no message makes us
/// read more than a few times its own size, or nest deeply.
capnp::ReaderOptions read_limits(const parcel& in);

/// Writes the message into a new frame: the one copy of its life here.
zmq::message_t to_frame(capnp::MessageBuilder& message);

/// Lends `bytes` to ZeroMQ, which drops `owner` once they are on the wire.
zmq::message_t lend_frame(std::span<const std::byte> bytes,
                          std::shared_ptr<const void> owner);

/// A payload from here on has a frame of its own.
inline constexpr std::size_t lent_from = 8192;

/// Payloads from here on take turns between two connections, where there are
/// two.
inline constexpr std::size_t striped_from = std::size_t{128} << 10;

/// Puts a message and its payload into the frames of `out`. A short payload is
/// copied behind the message: each frame more is some cache lines that two more
/// threads on each side hand over. A long one is lent as by lend_frame().
void put_frames(dispatch& out, std::span<const std::uint64_t> message,
                std::span<const std::byte> payload = {},
                std::shared_ptr<const void> owner = {});

/// For a process through which bulk data passes, before it has threads: memory
/// of frames and answers is used again as it is. Otherwise the C library gives
/// back what is large, and each frame comes into pages that the kernel has to
/// clear first.
void reuse_frames_memory();

} // namespace vgpu
