// One physical GPU of a node, as an actor: who uses it, by which rules its
// compute is shared, and how it is.
#pragma once

#include "actors/compute/share_board.hpp"
#include "actors/link/protocol.hpp"

#include <caf/all.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace vgpu {

/// Asks for `quota` bytes for a session; answered with pgpu_answer. Quotas may
/// add up to more than the pGPU's memory (those by share are limits, not
/// promises; the manager keeps account of promises), but none may exceed it.
struct pgpu_reserve {
  session_id session;
  vgpu::epoch epoch;
  std::uint64_t quota = 0;
  policy::share_claim claim{};
};
struct pgpu_answer {
  std::uint32_t ordinal = 0;
  std::string refusal; // empty: granted
  /// Where its worker takes turns; nobody: it does not.
  std::int32_t seat = policy::share_table::nobody;
  std::shared_ptr<share_board> board;
};
/// What a session may use of the compute, from now on.
struct pgpu_claim {
  session_id session;
  policy::share_claim claim{};
};
/// By which rules it is shared; what is empty or zero stays.
struct pgpu_rules {
  std::string policy;
  std::uint32_t quantum_us = 0;
};
/// What it had in this epoch. In a later one it keeps what it has.
struct pgpu_release {
  session_id session;
  vgpu::epoch epoch;
};
/// What a session holds now.
struct pgpu_use {
  session_id session;
  std::uint64_t bytes = 0;
};
/// The device is out of order: "lost" or "quarantined". It never comes back in
/// this process's life.
struct pgpu_fail {
  std::string state;
};
/// Told to the owner at first, and when the state or the rules have changed.
struct pgpu_changed {
  std::uint32_t ordinal = 0;
  std::string state;
  std::string policy;
  std::uint32_t quantum_us = 0;
  /// Where its sessions take turns; null: nowhere. Always the same.
  std::shared_ptr<share_board> board{};
};
/// Answered with pgpu_account.
struct pgpu_ask {};
struct pgpu_account {
  std::uint64_t quotas = 0; // bytes, of all sessions
  std::uint64_t used = 0;   // bytes
  std::vector<session_id> sessions;
  std::string state;
};

struct pgpu_state {
  pgpu_state() = default;

  static constexpr const char* name = "vgpu.pgpu";
  struct seat {
    vgpu::epoch epoch;
    std::uint64_t quota = 0;
    std::uint64_t used = 0;
    std::int32_t place = policy::share_table::nobody; // at the board
  };
  /// Null where the kernel gave no memory for it: then nobody takes turns.
  std::shared_ptr<share_board> board;
  control::pgpu what;
  std::map<session_id, seat> seats;
};

caf::behavior pgpu(caf::stateful_actor<pgpu_state>* self, control::pgpu what,
                   caf::actor owner);

} // namespace vgpu

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::control::pgpu)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::pgpu_reserve)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::pgpu_answer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::pgpu_claim)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::pgpu_rules)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::pgpu_release)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::pgpu_use)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::pgpu_fail)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::pgpu_changed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::pgpu_ask)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::pgpu_account)
