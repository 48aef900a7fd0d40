// The messages and the typed handle of a manager. The behaviour is in
// manager.hpp.
#pragma once

#include "actors/link/link_actor.hpp"
#include "actors/manager/election/etcd_access.hpp"
#include "actors/records/metrics_query.hpp"

#include <caf/all.hpp>

namespace vgpu {

/// Asks a manager to end in order, and to hand over the lead at once.
struct manager_resign {};

/// Says that the manager's keys have rotated: whoever is connected renews its
/// own.
struct keys_rotated {};

/// Decides for the cluster, or stands by while another manager does.
using manager_actor = caf::typed_actor<
    // A node, client or command says something. The link sends it.
    caf::reacts_to<incoming_ptr>,
    // A connection is lost. The link sends it.
    caf::reacts_to<link_event_ptr>,
    // Etcd answered a question. The etcd client sends it, to one of several
    // managers only.
    caf::reacts_to<etcd_answer_ptr>,
    // The process received a signal to end.
    caf::reacts_to<manager_resign>,
    // The process has another key.
    caf::reacts_to<keys_rotated>,
    // The metrics server of the process asks for a snapshot.
    caf::replies_to<metrics_ask>::with<metrics_ptr>,
    // The manager sends it to itself when something is due.
    caf::reacts_to<caf::tick_atom>>;

} // namespace vgpu

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::manager_resign)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::keys_rotated)
