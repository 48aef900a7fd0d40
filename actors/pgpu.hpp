// One physical GPU of a node, as an actor: who uses it, and how it is.
#pragma once

#include "actors/protocol.hpp"

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
  std::uint64_t quota = 0;
};
struct pgpu_answer {
  std::uint32_t ordinal = 0;
  std::string refusal; // empty: granted
};
struct pgpu_release {
  session_id session;
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
/// Told to the owner when the state has changed.
struct pgpu_changed {
  std::uint32_t ordinal = 0;
  std::string state;
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
    std::uint64_t quota = 0;
    std::uint64_t used = 0;
  };
  control::pgpu what;
  std::map<session_id, seat> seats;
};

caf::behavior pgpu(caf::stateful_actor<pgpu_state>* self, control::pgpu what,
                   caf::actor owner);

} // namespace vgpu

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::control::pgpu)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::pgpu_reserve)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::pgpu_answer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::pgpu_release)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::pgpu_use)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::pgpu_fail)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::pgpu_changed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::pgpu_ask)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::pgpu_account)
