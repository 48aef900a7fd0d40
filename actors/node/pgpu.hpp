// The actor of one physical GPU of a node: its sessions, its share policy and
// its health.
#pragma once

#include "actors/compute/share_board.hpp"
#include "actors/link/protocol.hpp"
#include "actors/node/pgpu_actor.hpp"

#include <caf/all.hpp>

#include <cstdint>
#include <map>
#include <memory>

namespace vgpu {

struct pgpu_state {
  pgpu_state() = default;

  static constexpr const char* name = "vgpu.pgpu";
  struct seat {
    vgpu::epoch epoch;
    std::uint64_t quota = 0;
    std::uint64_t used = 0;
    std::int32_t place = policy::share_table::nobody; // at the board
  };
  /// Holds the board; null where the kernel gave no memory for it. Then
  /// sessions take no turns.
  std::shared_ptr<share_board> board;
  control::pgpu what;
  std::map<session_id, seat> seats;
};

/// Implements the actor of the pGPU `what`.
pgpu_actor::behavior_type pgpu(pgpu_actor::stateful_pointer<pgpu_state> self,
                               control::pgpu what, pgpu_owner owner);

} // namespace vgpu

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::control::pgpu)
