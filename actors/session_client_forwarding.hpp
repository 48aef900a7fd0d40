// What a session_client knows of a worker that calls are sent to.
#pragma once

#include "actors/session_client.hpp"

namespace vgpu {

/// A worker that calls are sent to.
struct session_client::forwarding {
  /// Bytes of calls on their way, at most.
  static constexpr std::uint64_t window = std::uint64_t{64} << 20;

  link_socket socket;
  bool up = false;        // the connection stands
  bool attaching = false; // the lease was shown
  bool attached = false;  // and the worker takes calls
  std::uint64_t sent = 0;
  std::uint64_t executed = 0;
  std::uint64_t answers_seen = 0;
  std::uint64_t acknowledged = 0;
  std::uint64_t unacknowledged_bytes = 0;
  clock::time_point heard = clock::now();
  bool spoke = false; // it was heard at all

  bool has_room() const noexcept { return sent - executed < window; }

  forwarding(zmq::context_t& zmq, const link_options& options)
      : socket(zmq, options) {}
};

} // namespace vgpu
