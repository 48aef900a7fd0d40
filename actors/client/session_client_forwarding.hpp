// What a session_client knows of a worker that calls are sent to.
#pragma once

#include "actors/client/session_client.hpp"
#include "actors/link/reorder_buffer.hpp"

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

  /// For every other long payload: one connection is as fast as one thread
  /// copies.
  std::optional<link_socket> second;
  std::uint16_t second_port = 0; // where the worker takes it
  bool second_taken = false;     // it does
  bool second_fails = false;     // nobody is there
  bool by_second = false;        // the last long payload went so
  std::uint64_t long_bytes = 0;  // that went either way
  struct answer_in_order {
    data::answer head;
    parcel_ptr in;
  };
  reorder_buffer<answer_in_order> reorder;

  bool has_room() const noexcept { return sent - executed < window; }

  /// By which connection a payload goes.
  link_socket& connection_for(std::size_t bytes) {
    if (!second_taken || bytes < striped_from)
      return socket;
    by_second = !by_second;
    return by_second ? *second : socket;
  }

  void forget_second() {
    second.reset();
    second_taken = false;
    long_bytes = 0;
  }

  forwarding(zmq::context_t& zmq, const link_options& options)
      : socket(zmq, options) {}
};

} // namespace vgpu
