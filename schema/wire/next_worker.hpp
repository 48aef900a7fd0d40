// How the worker of a session reaches the prepared worker of its next place.
#pragma once

#include "schema/wire/message_fields.hpp"

#include <cstdint>
#include <string>

namespace vgpu {

/// Names a prepared worker, to which the session's present worker on the same
/// host tells what it can do in advance.
struct next_worker {
  /// Holds the name of its abstract Unix socket. Empty: there is no such
  /// worker.
  std::string socket{};
  /// Holds the secret by which it recognises the present worker.
  std::uint64_t token = 0;
  bool operator==(const next_worker&) const = default;

  explicit operator bool() const noexcept { return !socket.empty(); }

  static void fields(auto& x, auto&& f) {
    f(x.socket, WIRE_MEMBER(Socket));
    f(x.token, WIRE_MEMBER(Token));
  }
};

} // namespace vgpu
