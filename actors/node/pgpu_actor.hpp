// The messages and the typed handles of a pGPU's actor. The behaviour is in
// pgpu.hpp.
#pragma once

#include "actors/compute/share_board.hpp"
#include "actors/link/control_values.hpp"
#include "schema/base/ids.hpp"

#include <caf/all.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vgpu {

/// Asks for `quota` bytes of the pGPU's memory for a session. Quotas may add up
/// to more than the memory, because the manager keeps account of what is
/// promised. A single quota may not exceed it.
struct pgpu_reserve {
  session_id session;
  vgpu::epoch epoch;
  std::uint64_t quota = 0;
  policy::share_claim claim{};
};

/// Answers pgpu_reserve.
struct pgpu_answer {
  std::uint32_t ordinal = 0;
  /// Says why the pGPU refuses; empty where it grants.
  std::string refusal;
  /// Holds the seat where the session's worker takes turns; nobody: it takes
  /// none.
  std::int32_t seat = policy::share_table::nobody;
  std::shared_ptr<share_board> board;
};

/// Says how much of the compute a session may use from now on.
struct pgpu_claim {
  session_id session;
  policy::share_claim claim{};
};

/// Sets the rules by which the pGPU's compute is shared. A field that is empty
/// or zero changes nothing.
struct pgpu_rules {
  std::string policy;
  std::uint32_t quantum_us = 0;
};

/// Gives back what a session had in this epoch. What it has in a later one
/// stays reserved.
struct pgpu_release {
  session_id session;
  vgpu::epoch epoch;
};

/// Says how much memory a session holds now.
struct pgpu_use {
  session_id session;
  std::uint64_t bytes = 0;
};

/// Says that the device is out of order, which it stays for as long as the
/// process lives.
struct pgpu_fail {
  control::pgpu_health state = control::pgpu_health::lost;
};

/// Tells the owner how the pGPU is: at first, and when its state or its rules
/// have changed.
struct pgpu_changed {
  std::uint32_t ordinal = 0;
  control::pgpu_health state = control::pgpu_health::healthy;
  std::string policy;
  std::uint32_t quantum_us = 0;
  /// Holds the board at which sessions take turns, which is always the same
  /// one; null: there is none.
  std::shared_ptr<share_board> board{};
};

/// Asks what is reserved and used.
struct pgpu_ask {};

/// Answers pgpu_ask, in bytes of all sessions together.
struct pgpu_account {
  std::uint64_t quotas = 0;
  std::uint64_t used = 0;
  std::vector<session_id> sessions;
  control::pgpu_health state = control::pgpu_health::healthy;
};

/// Owns a pGPU's actor: the node's supervisor.
using pgpu_owner = caf::typed_actor<
    // The pGPU's state or rules are these from now on. The pGPU sends it.
    caf::reacts_to<pgpu_changed>>;

/// Keeps account of one physical GPU of a node. The supervisor sends all of its
/// messages.
using pgpu_actor = caf::typed_actor<
    // A session begins on the pGPU.
    caf::replies_to<pgpu_reserve>::with<pgpu_answer>,
    // A session's worker is dead, or never began.
    caf::reacts_to<pgpu_release>,
    // A session's share of the compute changed.
    caf::reacts_to<pgpu_claim>,
    // A user chose another policy.
    caf::reacts_to<pgpu_rules>,
    // A worker reported how much memory it holds.
    caf::reacts_to<pgpu_use>,
    // A worker reported that the device failed, or a user broke it on purpose.
    caf::reacts_to<pgpu_fail>,
    // A part of the node asks what is reserved and used.
    caf::replies_to<pgpu_ask>::with<pgpu_account>>;

} // namespace vgpu

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
