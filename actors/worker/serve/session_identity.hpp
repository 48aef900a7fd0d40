// The session that a worker serves, and its lease.
#pragma once

#include "actors/link/data_head.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace vgpu {

/// Names a session, the epoch in which this worker serves it, and the token
/// that its client must show.
struct session_identity {
  session_id session;
  vgpu::epoch epoch;
  std::uint64_t token = 0;

  /// Returns whether a message is for this session in this epoch.
  bool allows(const data::head& head) const noexcept {
    return head.session == session && head.epoch == epoch;
  }
  /// Encodes a message of this session in this epoch.
  std::vector<std::uint64_t> encode(data::body body) const {
    return data::encode({session, epoch, std::move(body)});
  }
  /// Returns a text for a stranger: what this worker serves.
  std::string text() const {
    return "this worker serves session " + std::to_string(session.value) +
           " in epoch " + std::to_string(epoch.value);
  }
};

} // namespace vgpu
