#include "actors/manager/sessions/vgpu_settings.hpp"

#include "actors/manager/cluster/key_rights.hpp"
#include "policies/compute/share_policies.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace vgpu {

namespace {

constexpr std::uint32_t shortest_quantum_us = 1'000;
constexpr std::uint32_t longest_quantum_us = 1'000'000;

fault wrong(const std::string& name, const std::string& given,
            const std::string& range) {
  return {fault_kind::usage, name + " " + given + ": give " + range};
}

/// Returns whether `x` is 0, which changes nothing, or a fraction. It is
/// written so that NaN is refused as well.
bool is_fraction_or_none(double x) {
  return x >= 0 && x <= 1;
}

std::string mib(std::uint64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

void set_recovery(control::specification& to, const control::set_vgpu& x) {
  if (x.recover_within_ms != 0)
    to.recover_within_ms = x.recover_within_ms;
  if (x.change_protect_cost)
    to.protect_cost = x.protect_cost;
  if (x.change_on_divergence)
    to.on_divergence = x.on_divergence;
}

/// Describes the settings for the event that tells of them.
std::string text_of(const session_record& x) {
  std::string out;
  auto add = [&](const std::string& name, const std::string& value) {
    out += (out.empty() ? "" : ", ") + name + " " + value;
  };
  for (const auto& field : control::specification_fields())
    for (auto name : {"share", "limit", "priority", "recover-within",
                      "protect-cost", "on-divergence"})
      if (std::string_view{field.name} == name)
        add(name, field.get(x.spec));
  add("memory", mib(x.quota));
  return out;
}

status check_set_vgpu(const control::set_vgpu& x) {
  if (!is_fraction_or_none(x.share))
    return wrong("share", std::to_string(x.share), "more than 0, at most 1");
  if (!is_fraction_or_none(x.limit))
    return wrong("limit", std::to_string(x.limit), "more than 0, at most 1");
  if (x.priority < -control::largest_priority ||
      x.priority > control::largest_priority)
    return wrong("priority", std::to_string(x.priority), "-1000 to 1000");
  control::specification to;
  set_recovery(to, x);
  return control::check(control::recovery_of(to));
}

void set_fields(control::specification& to, const control::set_vgpu& x) {
  if (x.share != 0)
    to.share = x.share;
  if (x.limit != 0)
    to.limit = x.limit;
  if (x.change_priority)
    to.priority = x.priority;
  if (x.memory != 0)
    to.memory = x.memory;
  set_recovery(to, x);
}

} // namespace

vgpu_settings::vgpu_settings(cluster_state& state, outbox& out,
                             capacity_index& capacity,
                             const tenant_registry& tenants,
                             session_placement& placement)
    : state_(state), out_(out), capacity_(capacity), tenants_(tenants),
      placement_(placement) {}

/// Returns a fault unless a session can have the new values in its place.
status vgpu_settings::check(const session_record& x,
                            const control::set_vgpu& to) const {
  auto changed = x;
  set_fields(changed.spec, to);
  if (auto within = tenants_.admit_change(x, changed); !within)
    return within;
  if (to.memory == 0 || x.stage == session_stage::waiting)
    return {};
  if (to.memory < x.load.memory_bytes)
    return fault{fault_kind::usage, "memory " + mib(to.memory) + ": session " +
                                        std::to_string(x.id.value) +
                                        " has allocated " +
                                        mib(x.load.memory_bytes)};
  for (const auto& node : state_.view().nodes)
    for (const auto& pgpu : node.pgpus) {
      auto here = std::count(x.where.pgpus.begin(), x.where.pgpus.end(),
                             pgpu.ordinal) != 0;
      if (node.name != x.where.node || !here)
        continue;
      auto others = pgpu.reserved - std::min(pgpu.reserved, x.spec.memory);
      if (to.memory > pgpu.memory - std::min(pgpu.memory, others))
        return fault{fault_kind::exhausted,
                     "memory " + mib(to.memory) + ": pGPU " +
                         std::to_string(pgpu.ordinal) + " of " + node.name +
                         " has " + mib(pgpu.memory) + ", of which " +
                         mib(others) + " are promised to others"};
    }
  return {};
}

void vgpu_settings::resize(session_record& x, const control::set_vgpu& to) {
  auto former = control::recovery_of(x.spec);
  set_fields(x.spec, to);
  auto quota = to.memory != 0 ? to.memory : x.quota;
  capacity_.recount(x);
  auto placed = x.stage != session_stage::waiting;
  // Its worker has the old quota already, unless that is still to be announced.
  auto known = !x.terms_unannounced && quota <= x.largest_quota;
  auto changed = placed && quota != std::exchange(x.quota, quota);
  auto as_before = former == control::recovery_of(x.spec);
  x.largest_quota = std::max(x.largest_quota, quota);
  state_.save(x);
  if (placed)
    out_.to_node(x.where.node,
                 control::resize_session{x.id, x.epoch, x.spec.share,
                                         x.spec.limit, x.spec.priority, quota});
  if ((changed || !as_before) && known && x.stage == session_stage::running)
    return placement_.give_lease(x);
  x.terms_unannounced = x.terms_unannounced || changed || !as_before;
  announce_terms(x);
}

void vgpu_settings::announce_terms(session_record& x) {
  if (!x.terms_unannounced || x.stage != session_stage::running ||
      x.load.quota < x.quota)
    return;
  x.terms_unannounced = false;
  placement_.give_lease(x);
}

void vgpu_settings::handle(const std::string& peer,
                           const control::envelope& from,
                           const control::set_vgpu& x) {
  auto good = check_set_vgpu(x);
  auto found = false;
  auto is_meant = [&](const session_record& session) {
    return session.vgpu == x.vgpu && may_reach(from, session.tenant);
  };
  for (const auto& [id, session] : state_.sessions)
    if (is_meant(session) && good) {
      found = true;
      good = check(session, x);
    }
  if (good && !found)
    good = fault{fault_kind::usage, "no vGPU " + std::to_string(x.vgpu.value) +
                                        "; `vgpu status` lists the vGPUs"};
  if (!good)
    return out_.refuse(peer, from, good.why());
  for (auto& [id, session] : state_.sessions)
    if (is_meant(session)) {
      resize(session, x);
      out_.emit(event_kind::vgpu_resized, text_of(session),
                subject_of(session));
    }
  out_.answer(peer, from.request, control::done{});
  placement_.place_waiting();
}

void vgpu_settings::handle(const std::string& peer,
                           const control::envelope& from,
                           const control::set_policy& x) {
  if (auto ok = state_.check_pgpu(x.node, x.pgpu); !ok)
    return out_.refuse(peer, from, ok.why());
  if (!x.policy.empty() && !policy::parse_share_policy(x.policy))
    return out_.refuse(
        peer, from,
        wrong("policy", "'" + x.policy + "'", policy::list_share_policies()));
  if (x.quantum_us != 0 &&
      (x.quantum_us < shortest_quantum_us || x.quantum_us > longest_quantum_us))
    return out_.refuse(peer, from,
                       wrong("quantum", std::to_string(x.quantum_us) + " us",
                             "1 ms to 1000 ms"));
  out_.to_node(x.node, x);
  out_.emit(event_kind::policy_set,
            "pGPU " + std::to_string(x.pgpu) + " of " + x.node + ": " +
                (x.policy.empty()
                     ? "quantum " + std::to_string(x.quantum_us) + " us"
                     : x.policy),
            {.node = x.node});
  out_.answer(peer, from.request, control::done{});
}

} // namespace vgpu
