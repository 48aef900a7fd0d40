// The messages and the typed handle of a session_client. The behaviour is in
// session_client.hpp.
#pragma once

#include "actors/client/guest_codec.hpp"
#include "actors/link/protocol.hpp"

#include <caf/all.hpp>

#include <memory>

namespace vgpu {

/// Grants the session a lease with a higher epoch than before, or changes the
/// quota of its lease.
using lease_ptr = std::shared_ptr<const control::lease>;

/// Refuses a lease, or ends the session.
using refusal_ptr = std::shared_ptr<const control::refusal>;

/// Says why the session still waits.
using news_ptr = std::shared_ptr<const control::event>;

/// Orders a checkpoint that the client keeps.
using pause_order_ptr = std::shared_ptr<const control::pause_session>;

/// Orders a checkpointed worker process to resume.
using restore_process_ptr = std::shared_ptr<const control::restore_process>;

/// Answers guest_watches_ptr with the vGPUs of the program's group.
using watched_ptr = std::shared_ptr<const guest::watched>;

/// Serves one program from one worker at a time. The client sends all of its
/// messages. All but the last come from the manager.
using session_client_actor = caf::typed_actor<
    // The manager granted a lease.
    caf::reacts_to<lease_ptr>,
    // The manager refused the session, or ends it.
    caf::reacts_to<refusal_ptr>,
    // The manager has no place yet.
    caf::reacts_to<news_ptr>,
    // The manager wants the session to leave its worker.
    caf::reacts_to<pause_order_ptr>,
    // The manager has a place for the process that was checkpointed.
    caf::reacts_to<restore_process_ptr>,
    // The client answers a program that only watches.
    caf::reacts_to<watched_ptr>>;

} // namespace vgpu

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::lease_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::refusal_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::news_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::pause_order_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::restore_process_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::watched_ptr)
