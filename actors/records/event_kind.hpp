// The kinds of events that the programs of a cluster report.
#pragma once

#include "schema/base/enum_names.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace vgpu {

/// Names the kinds of events. On the wire and in JSON a kind is a text, so that
/// a manager passes on the kinds of a later release unchanged.
enum class event_kind : std::uint8_t {
  // -- the manager ------------------------------------------------------------
  manager_leads,
  manager_restarted,
  fault_injected,
  policy_set,
  vgpu_resized,
  tenant_set,
  // -- nodes ------------------------------------------------------------------
  node_joined,
  node_left,
  node_lost,
  node_drained,
  node_undrained,
  device_lost,
  worker_exited,
  fenced,
  // -- sessions ---------------------------------------------------------------
  refused,
  session_waiting,
  session_opened,
  session_replaced,
  session_adopted,
  session_suspect,
  session_failed,
  session_closed,
  // -- movement ---------------------------------------------------------------
  move_failed,
  session_suspended,
  session_reclaimed,
  session_preempted,
  session_resumed,
  session_migrated,
  session_balanced,
};

/// Holds the texts of the kinds, on the wire and in JSON.
inline constexpr enum_names<event_kind, 29> event_kind_names{{
    {event_kind::manager_leads, "manager-leads"},
    {event_kind::manager_restarted, "manager-restarted"},
    {event_kind::fault_injected, "fault-injected"},
    {event_kind::policy_set, "policy-set"},
    {event_kind::vgpu_resized, "vgpu-resized"},
    {event_kind::tenant_set, "tenant-set"},
    {event_kind::node_joined, "node-joined"},
    {event_kind::node_left, "node-left"},
    {event_kind::node_lost, "node-lost"},
    {event_kind::node_drained, "node-drained"},
    {event_kind::node_undrained, "node-undrained"},
    {event_kind::device_lost, "device-lost"},
    {event_kind::worker_exited, "worker-exited"},
    {event_kind::fenced, "fenced"},
    {event_kind::refused, "refused"},
    {event_kind::session_waiting, "session-waiting"},
    {event_kind::session_opened, "session-opened"},
    {event_kind::session_replaced, "session-replaced"},
    {event_kind::session_adopted, "session-adopted"},
    {event_kind::session_suspect, "session-suspect"},
    {event_kind::session_failed, "session-failed"},
    {event_kind::session_closed, "session-closed"},
    {event_kind::move_failed, "move-failed"},
    {event_kind::session_suspended, "session-suspended"},
    {event_kind::session_reclaimed, "session-reclaimed"},
    {event_kind::session_preempted, "session-preempted"},
    {event_kind::session_resumed, "session-resumed"},
    {event_kind::session_migrated, "session-migrated"},
    {event_kind::session_balanced, "session-balanced"},
}};
static_assert(is_complete(event_kind_names, event_kind::session_balanced));

/// Returns the text of a kind, as scripts read it.
constexpr const char* name_of(event_kind x) noexcept {
  return text_in(event_kind_names, x);
}

} // namespace vgpu
