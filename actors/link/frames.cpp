#include "actors/link/frames.hpp"

#include <kj/io.h>

#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace vgpu {

parcel::parcel(std::string peer, zmq::message_t head, zmq::message_t bulk,
               principal_ptr who)
    : peer_(std::move(peer)), who_(std::move(who)), head_(std::move(head)),
      bulk_(std::move(bulk)) {
  constexpr auto word_bytes = sizeof(capnp::word);
  auto bytes = head_.size();
  auto* words = static_cast<const capnp::word*>(head_.data());
  if (reinterpret_cast<std::uintptr_t>(words) % alignof(capnp::word) != 0) {
    // ZeroMQ hands out slices of its receive buffer, each behind a frame header
    // of 2 or 9 bytes. Keeping the slice would keep the whole buffer of 8 KiB.
    aligned_ =
        kj::heapArray<capnp::word>((bytes + word_bytes - 1) / word_bytes);
    std::memcpy(aligned_.begin(), words, bytes);
    words = aligned_.begin();
    head_.rebuild();
  }
  words_ = {words, bytes / word_bytes};
  if (auto own = capnp::expectedSizeInWordsFromPrefix(words_);
      own <= words_.size()) {
    words_ = words_.slice(0, own);
    payload_ = {reinterpret_cast<const std::byte*>(words_.end()),
                bytes - own * word_bytes};
  }
  if (bulk_.size() != 0)
    payload_ = {bulk_.data<std::byte>(), bulk_.size()};
}

capnp::ReaderOptions read_limits(const parcel& in) {
  capnp::ReaderOptions limits;
  limits.traversalLimitInWords =
      std::max<std::uint64_t>(1024, 4 * in.words().size());
  limits.nestingLimit = 16;
  return limits;
}

zmq::message_t to_frame(capnp::MessageBuilder& message) {
  auto bytes =
      capnp::computeSerializedSizeInWords(message) * sizeof(capnp::word);
  zmq::message_t frame{bytes};
  kj::ArrayOutputStream out{{static_cast<kj::byte*>(frame.data()), bytes}};
  capnp::writeMessage(out, message);
  return frame;
}

zmq::message_t lend_frame(std::span<const std::byte> bytes,
                          std::shared_ptr<const void> owner) {
  using box = std::shared_ptr<const void>;
  auto hint = std::make_unique<box>(std::move(owner));
  zmq::message_t frame{
      const_cast<std::byte*>(bytes.data()), bytes.size(),
      [](void*, void* kept) { std::unique_ptr<box>{static_cast<box*>(kept)}; },
      hint.get()};
  hint.release();
  return frame;
}

void put_frames(dispatch& out, std::span<const std::uint64_t> message,
                std::span<const std::byte> payload,
                std::shared_ptr<const void> owner) {
  auto lent = payload.size() >= lent_from;
  out.head.rebuild(message.size_bytes() + (lent ? 0 : payload.size()));
  auto* at = out.head.data<std::byte>();
  std::memcpy(at, message.data(), message.size_bytes());
  if (lent)
    out.bulk = lend_frame(payload, std::move(owner));
  else if (!payload.empty())
    std::memcpy(at + message.size_bytes(), payload.data(), payload.size());
}

void reuse_frames_memory() {
  // This is more than the longest answer (interposer/memory/copies.cpp, 16
  // MiB).
  constexpr int kept_block = 20 << 20;
  // Each of malloc's arenas keeps this many bytes, the size of a heap.
  constexpr int kept = 64 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kept_block);
  ::mallopt(M_TRIM_THRESHOLD, kept);
  ::mallopt(M_TOP_PAD, kept);
}

} // namespace vgpu
