// Seals long payloads under AES-256-GCM, for a connection that CURVE does not
// encrypt. This file knows nothing of sockets.
//
// OpenSSL's AES-256-GCM encrypts several times as fast as the cipher of CURVE
// (docs/performance/copies.md has the measurements).
#pragma once

#include "schema/base/ids.hpp"
#include "schema/wire/message_fields.hpp"

#include <zmq.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

struct evp_cipher_ctx_st;

namespace vgpu {

/// Gives the size from which payloads travel sealed, if the session has keys.
/// CURVE encrypts shorter ones together with their messages.
inline constexpr std::size_t sealed_from = std::size_t{16} << 10;

/// Is a key for AES-256-GCM.
using seal_key = std::array<std::byte, 32>;
/// Opens one connection to a sealed port, once.
using seal_ticket = std::array<std::byte, 16>;

/// Offers a client a sealed connection. It is a secret, so it only ever crosses
/// connections that CURVE encrypts. Each offer has a key that no other has.
struct seal_offer {
  std::uint16_t port = 0; // 0: there is no offer
  seal_ticket ticket{};
  seal_key key{};

  static void fields(auto& x, auto&& f) {
    f(x.port, WIRE_MEMBER(Port));
    f(x.ticket, WIRE_MEMBER(Ticket));
    f(x.key, WIRE_MEMBER(Key));
  }
};

/// Returns the ticket as text, as a connection shows it.
std::string text_of(const seal_ticket& ticket);

/// Fills both secrets of an offer with random bytes. Throws where the kernel
/// has none.
void make_secrets(seal_offer& offer);

/// Says to whom a sealed message belongs. Both ends know it from elsewhere, and
/// a message that was sealed for another session or epoch does not open.
struct seal_subject {
  session_id session;
  vgpu::epoch epoch;
};

/// Names who sends. Each direction has nonces of its own.
enum class seal_direction : std::uint8_t { to_listener, from_listener };

/// Seals or opens the messages of one direction of one connection. The nonce is
/// the direction and the position of the message, which do not travel. So a
/// message opens only in its place: one that was changed, cut, repeated,
/// reordered or left out makes the next ones fail. Not thread-safe.
///
/// A sealed message has one or two frames, of the sizes of the original ones;
/// the first has a tag of 16 bytes at its end, for both.
class frame_seal {
public:
  /// Bounds the messages under one key, far below what AES-GCM permits.
  static constexpr std::uint64_t most_messages = std::uint64_t{1} << 32;
  static constexpr std::size_t tag_bytes = 16;

  /// Throws where OpenSSL has no AES-256-GCM.
  frame_seal(const seal_key& key, seal_direction direction,
             const seal_subject& subject);

  /// Bounds a frame, in bytes. A link's own bound is smaller.
  static constexpr std::size_t most_frame_bytes = std::size_t{1} << 30;

  struct frames {
    zmq::message_t head;
    zmq::message_t bulk;
  };

  /// Returns the sealed message, or nullopt where the key has sealed
  /// most_messages. It must be the next that the other end opens.
  std::optional<frames> seal(const zmq::message_t& head,
                             const zmq::message_t& bulk);

  /// Opens both frames. Returns false where they are not the message that was
  /// sealed at this position. Drop them then, and the connection.
  [[nodiscard]] bool open(zmq::message_t& head, zmq::message_t& bulk);

private:
  struct free_context {
    void operator()(evp_cipher_ctx_st* x) const noexcept;
  };

  void begin(bool encrypt, std::size_t head, std::size_t bulk);
  void pass(const zmq::message_t& from, void* to, std::size_t bytes);

  std::unique_ptr<evp_cipher_ctx_st, free_context> context_;
  seal_direction direction_;
  seal_subject subject_;
  std::uint64_t position_ = 0;
};

} // namespace vgpu
