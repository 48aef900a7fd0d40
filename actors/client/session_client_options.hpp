// How a client serves its sessions.
#pragma once

#include "schema/base/busy_poll.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace vgpu {

/// How calls reach the worker.
enum class transport {
  automatic, // mapped where program and worker share a host
  mapped,    // the worker maps the call log
  forwarded, // the client sends the calls
};

struct session_client_options {
  vgpu::transport transport = transport::automatic;
  /// A forwarded worker hears from its client this often.
  std::chrono::milliseconds keepalive_every{100};
  /// A worker stops by itself when no keepalive came for this long.
  std::chrono::milliseconds lease_term{400};
  /// A new forwarded worker may be silent for this long before the client
  /// suspects it. A connection takes four round trips to stand, and the manager
  /// learns of a dead worker sooner than that.
  std::chrono::milliseconds first_word_within{2'000};
  /// A worker that was ordered to checkpoint must come to a call's boundary
  /// within this time.
  std::chrono::milliseconds pause_within{30'000};
  /// A state of more bytes lies on a disk and not in memory: in `state_dir`
  /// where the session was suspended or migrates, and in the program's folder
  /// where it is a snapshot.
  std::uint64_t state_memory = std::uint64_t{4} << 30;
  std::string state_dir = "/var/tmp";
  /// Limits of busy-polling for forwarded calls and for their answers.
  busy_poll_limits busy_poll;
};

} // namespace vgpu
