// The options by which a client serves its sessions.
#pragma once

#include "actors/link/curve_keys.hpp"
#include "schema/base/busy_poll.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace vgpu {

/// Says how calls reach the worker.
enum class transport {
  automatic, // mapped where program and worker share a host
  mapped,    // the worker maps the call log
  forwarded, // the client sends the calls
};

struct session_client_options {
  vgpu::transport transport = transport::automatic;
  /// Says how often the client sends a keepalive to a forwarded worker.
  std::chrono::milliseconds keepalive_every{100};
  /// Says after how long without a keepalive a worker stops by itself.
  std::chrono::milliseconds lease_term{400};
  /// Says how long a new forwarded worker may be silent before the client
  /// suspects it. A connection needs four round trips, and the manager notices
  /// a dead worker sooner than that.
  std::chrono::milliseconds first_word_within{2'000};
  /// Limits the time in which a worker that was ordered to checkpoint must come
  /// to rest at a call.
  std::chrono::milliseconds pause_within{30'000};
  /// Limits the time between two parts of a forwarded worker's state. A part
  /// that was lost with a full queue does not come again.
  std::chrono::milliseconds state_part_within{60'000};
  /// Limits a state in memory, in bytes. A larger one lies on a disk: in
  /// `state_dir` where the session is suspended or migrates, and in the
  /// program's folder where it is a snapshot.
  std::uint64_t state_memory = std::uint64_t{4} << 30;
  std::string state_dir = "/var/tmp";
  /// Limits busy-polling for forwarded calls and for their answers.
  busy_poll_limits busy_poll;
  /// Holds the keys that the manager knows this client by. Then no worker gets
  /// calls over TCP unless it proves the key that the lease says. Null: the
  /// manager knows no keys.
  std::shared_ptr<const own_keys> keys;
};

} // namespace vgpu
