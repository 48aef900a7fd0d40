#include "actors/manager/cluster/tenant_registry.hpp"

#include "actors/link/permitted_keys.hpp"
#include "actors/link/printable.hpp"
#include "actors/manager/cluster/key_rights.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace vgpu {

namespace {

/// Returns `to` with those of the limits that change.
control::tenant_limits changed(control::tenant_limits to,
                               const control::set_tenant& x) {
  if (x.change_gpus)
    to.gpus = x.limits.gpus;
  if (x.change_memory)
    to.memory = x.limits.memory;
  if (x.change_share)
    to.share = x.limits.share;
  if (x.change_sessions)
    to.sessions = x.limits.sessions;
  if (x.change_priority)
    to.priority = x.limits.priority;
  return to;
}

bool limits_sums(const control::tenant_limits& x) {
  auto sums = x;
  sums.priority = control::largest_priority;
  return sums != control::tenant_limits{};
}

fault unknown_tenant(const std::string& name) {
  return {fault_kind::missing, "no tenant '" + printable(name) +
                                   "'; `vgpu tenant list` lists them, and "
                                   "`vgpu tenant add` adds one"};
}

} // namespace

tenant_registry::tenant_registry(cluster_state& state, outbox& out)
    : state_(state), out_(out) {}

// -- orders of admins, and questions of all -----------------------------------

void tenant_registry::handle(const std::string& peer,
                             const control::envelope& from,
                             const control::set_tenant& x) {
  if (auto good = set(x); !good)
    return out_.refuse(peer, from, good.why());
  out_.emit(event_kind::tenant_set,
            "tenant " + x.name + ": " + text_of(state_.tenants.at(x.name)));
  out_.answer(peer, from.request, control::done{});
}

status tenant_registry::set(const control::set_tenant& x) {
  if (!is_principal_name(x.name))
    return fault{fault_kind::usage,
                 "tenant '" + printable(x.name) +
                     "': give 1 to 64 letters, digits, and - _ . @"};
  auto found = state_.tenants.find(x.name);
  auto known = found != state_.tenants.end();
  if (x.add && known)
    return fault{fault_kind::refused, "there is a tenant '" + x.name +
                                          "'; `vgpu tenant set` changes it"};
  // `default` is there always, and has no limits until somebody sets some.
  if (!x.add && !known && x.name != default_tenant)
    return unknown_tenant(x.name);
  if (!known && state_.tenants.size() >= most_tenants)
    return fault{fault_kind::exhausted,
                 "there are " + std::to_string(most_tenants) +
                     " tenants, and no room for more; remove some"};
  auto limits = changed(known ? found->second : control::tenant_limits{}, x);
  if (auto good = check_limits(limits); !good)
    return good;
  keep(x.name, limits);
  return {};
}

void tenant_registry::handle(const std::string& peer,
                             const control::envelope& from,
                             const control::remove_tenant& x) {
  if (auto good = remove(x); !good)
    return out_.refuse(peer, from, good.why());
  out_.emit(event_kind::tenant_set, "tenant " + x.name + " was removed");
  out_.answer(peer, from.request, control::done{});
}

status tenant_registry::remove(const control::remove_tenant& x) {
  if (!state_.tenants.contains(x.name))
    return unknown_tenant(x.name);
  control::tenant now;
  use_of(x.name).tell(now);
  if (now.sessions != 0 && !x.force)
    return fault{fault_kind::refused,
                 "tenant '" + x.name + "' has " + std::to_string(now.sessions) +
                     " sessions; end them first, or give --force, with which "
                     "they go on"};
  keep(x.name, std::nullopt);
  return {};
}

/// The store comes first: an order that was answered is not lost.
void tenant_registry::keep(
    const std::string& name,
    const std::optional<control::tenant_limits>& limits) {
  if (state_.kept != nullptr)
    state_.kept->save_tenant(name, limits);
  if (limits)
    state_.tenants.insert_or_assign(name, *limits);
  else
    state_.tenants.erase(name);
}

void tenant_registry::handle(const std::string& peer,
                             const control::envelope& from,
                             const control::tenants_request&) {
  std::map<std::string, tenant_use> all;
  auto only = confined_to(from);
  all[only.value_or(default_tenant)];
  if (!only)
    for (const auto& [name, limits] : state_.tenants)
      all[name];
  for (const auto& [id, x] : state_.sessions)
    if (may_reach(from, x.tenant))
      all[tenant_of(x.tenant)].add(x);
  control::tenants out;
  for (const auto& [name, use] : all) {
    auto& row = out.list.emplace_back();
    row.name = name;
    row.added = state_.tenants.contains(name) || name == default_tenant;
    row.limits = limits_of(name);
    use.tell(row);
  }
  out_.answer(peer, from.request, std::move(out));
}

// -- sessions -----------------------------------------------------------------

/// A tenant that was not added has those of `default`, so that no key has more
/// than an admin granted to keys in general.
const control::tenant_limits&
tenant_registry::limits_of(const std::string& name) const {
  static const control::tenant_limits none;
  for (const auto& each : {name, std::string{default_tenant}})
    if (auto i = state_.tenants.find(each); i != state_.tenants.end())
      return i->second;
  return none;
}

tenant_use tenant_registry::use_of(const std::string& name,
                                   session_id except) const {
  tenant_use out;
  for (const auto& [id, x] : state_.sessions)
    if (tenant_of(x.tenant) == name && id != except)
      out.add(x);
  return out;
}

void tenant_registry::lower_priority(session_record& x) const {
  x.spec.priority =
      std::min(x.spec.priority, limits_of(tenant_of(x.tenant)).priority);
}

status tenant_registry::admit(const session_record& x) const {
  auto name = tenant_of(x.tenant);
  const auto& limits = limits_of(name);
  if (!limits_sums(limits))
    return {};
  return use_of(name).admit(name, limits, state_.tenants.contains(name), x);
}

status tenant_registry::admit_change(const session_record& from,
                                     const session_record& to) const {
  auto name = tenant_of(from.tenant);
  auto limits = limits_of(name);
  auto added = state_.tenants.contains(name);
  if (to.spec.priority > std::max(from.spec.priority, limits.priority))
    return fault{fault_kind::refused,
                 "priority " + std::to_string(to.spec.priority) + ": tenant '" +
                     name + "' may have at most " +
                     std::to_string(limits.priority) +
                     "; raise it first: `vgpu tenant " +
                     (added ? "set " : "add ") + name + " --priority MAX`"};
  limits.sessions = limits.gpus = control::unlimited;
  if (tenant_use::memory_of(to) <= tenant_use::memory_of(from))
    limits.memory = control::unlimited;
  if (to.spec.share <= from.spec.share)
    limits.share = control::unlimited_share;
  if (!limits_sums(limits))
    return {};
  return use_of(name, from.id).admit(name, limits, added, to);
}

} // namespace vgpu
