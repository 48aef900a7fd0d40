// Sends to a session's client, on this host or elsewhere.
#pragma once

#include "actors/worker/serve/forwarded_source.hpp"
#include "actors/worker/serve/mapped_source.hpp"

#include <cstdint>
#include <span>
#include <utility>

namespace vgpu {

/// Sends to the client that is served: by its socket on this host, or over the
/// network. Drops messages while there is no client, because a new client
/// reports what it knows. Not thread-safe.
class client_channel {
public:
  client_channel(mapped_source& mapped, forwarded_source& forwarded)
      : mapped_(mapped), forwarded_(forwarded) {}

  /// Returns whether a client of this host is served.
  bool is_on_this_host() const noexcept { return mapped_.has_client(); }
  /// Returns whether a client of this host has read all messages.
  bool has_read() const { return mapped_.has_client() && mapped_.is_read(); }
  void tell(data::body body) { tell(std::move(body), {}); }
  /// Sends descriptors too, to a client of this host.
  void tell(data::body body, std::span<const int> descriptors) {
    if (mapped_.has_client())
      mapped_.send(std::move(body), descriptors);
    else if (forwarded_.has_client())
      forwarded_.send(std::move(body));
  }

  /// Returns how many answers a client of this host was given, or another was
  /// sent.
  std::uint64_t answers() const {
    return mapped_.has_client() ? mapped_.log()->answers->count() : forwarded();
  }
  /// Returns how many answers a client elsewhere must have.
  std::uint64_t forwarded() const {
    return forwarded_.answers() ? forwarded_.answers()->count() : 0;
  }
  /// Returns how many of these will not be sent again.
  std::uint64_t acknowledged() const {
    return forwarded_.answers() ? forwarded_.answers()->acknowledged() : 0;
  }
  /// Returns the position before which all calls have arrived.
  std::uint64_t received() const noexcept { return forwarded_.received(); }

  /// Sends a client elsewhere all answers so far, and what kernels wrote.
  void settle_answers(bool also_zero_copy) {
    if (also_zero_copy && forwarded_.answers())
      forwarded_.answers()->tell_now();
    forwarded_.send_answers();
  }

private:
  mapped_source& mapped_;
  forwarded_source& forwarded_;
};

} // namespace vgpu
