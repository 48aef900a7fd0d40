// What a session_client and its owner, the client actor, send each other.
#pragma once

#include "actors/client/guest_codec.hpp"
#include "actors/link/protocol.hpp"
#include "schema/log/session_area.hpp"

#include <caf/all.hpp>

#include <cstdint>
#include <memory>
#include <optional>

namespace vgpu {

/// A session_client reports that a program opened its session.
struct guest_opened {
  control::program program;
  /// The memory that the program and its client share.
  std::shared_ptr<const session_area> area;
  control::specification specification;
  /// Set where the session exists already, because its former client died.
  std::optional<control::adopt> resumed;
};
using guest_opened_ptr = std::shared_ptr<const guest_opened>;

/// A program asks which vGPUs its group has.
struct guest_watches {
  std::uint64_t group = 0;
};
using guest_watches_ptr = std::shared_ptr<const guest_watches>;

/// The client's answer to guest_watches.
using watched_ptr = std::shared_ptr<const guest::watched>;

/// The manager grants a lease.
using lease_ptr = std::shared_ptr<const control::lease>;

/// The manager refuses a lease, or ends the session.
using refusal_ptr = std::shared_ptr<const control::refusal>;

/// The manager reports why the session still waits.
using news_ptr = std::shared_ptr<const control::event>;

/// The manager orders a checkpoint that the client keeps.
using pause_order_ptr = std::shared_ptr<const control::pause_session>;

/// The manager orders a checkpointed worker process to resume.
using bring_back_ptr = std::shared_ptr<const control::bring_back>;

/// A session_client's message for the manager.
using control_body_ptr = std::shared_ptr<const control::body>;

} // namespace vgpu

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::guest_opened_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::guest_watches_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::watched_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::lease_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::refusal_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::news_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::pause_order_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::bring_back_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::control_body_ptr)
