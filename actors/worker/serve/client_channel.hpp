// The way to a session's client, wherever it is.
#pragma once

#include "actors/worker/serve/forwarded_source.hpp"
#include "actors/worker/serve/mapped_source.hpp"

#include <cstdint>
#include <span>
#include <utility>

namespace vgpu {

/// Sends to the client that is served: by its socket where it is on this host,
/// else over the network. What is sent while there is no client is dropped, for
/// a client says what it knows when it comes. One thread, as its two sources.
class client_channel {
public:
  client_channel(mapped_source& mapped, forwarded_source& forwarded)
      : mapped_(mapped), forwarded_(forwarded) {}

  /// Whether a client of this host is served.
  bool is_on_this_host() const noexcept { return mapped_.has_client(); }
  void tell(data::body body) { tell(std::move(body), {}); }
  /// Sends descriptors along to a client of this host.
  void tell(data::body body, std::span<const int> descriptors) {
    if (mapped_.has_client())
      mapped_.send(std::move(body), descriptors);
    else if (forwarded_.has_client())
      forwarded_.send(std::move(body));
  }

  /// How many answers were given to a client of this host, or sent.
  std::uint64_t answers() const {
    return mapped_.has_client() ? mapped_.log()->answers->count() : forwarded();
  }
  /// How many answers for a client elsewhere must have arrived.
  std::uint64_t forwarded() const {
    return forwarded_.answers() ? forwarded_.answers()->count() : 0;
  }
  /// How many of these will not be sent again.
  std::uint64_t acknowledged() const {
    return forwarded_.answers() ? forwarded_.answers()->acknowledged() : 0;
  }
  /// The position before which all calls came.
  std::uint64_t received() const noexcept { return forwarded_.received(); }

  /// Has the program elsewhere what its kernels wrote and its calls brought.
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
