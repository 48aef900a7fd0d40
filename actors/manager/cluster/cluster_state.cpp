#include "actors/manager/cluster/cluster_state.hpp"

#include "actors/link/printable.hpp"
#include "actors/records/tenant_quota.hpp"
#include "policies/placement/constraints.hpp"
#include "policies/placement/placement.hpp"

#include <algorithm>
#include <cstddef>

namespace vgpu {

namespace {

policy::node_view node_view_of(const std::string& name,
                               const node_record& node) {
  policy::node_view out;
  out.name = name;
  out.host = node.info.host;
  out.alive = node.state == node_record::stage::alive;
  for (const auto& pgpu : node.info.pgpus)
    out.pgpus.push_back({pgpu.ordinal, pgpu.facts.total_memory, 0, 0, 0,
                         pgpu.state == control::pgpu_health::healthy,
                         pgpu.backend, pgpu.facts.name, 0,
                         pgpu.facts.capability()});
  return out;
}

void count_session(policy::node_view& there, const session_record& x) {
  for (auto& pgpu : there.pgpus)
    if (std::ranges::count(x.where.pgpus, pgpu.ordinal) != 0) {
      pgpu.reserved += x.spec.memory;
      pgpu.held += std::max(x.spec.memory, x.load.memory_bytes);
      pgpu.shares += policy::counted_share(x.spec.share);
      ++pgpu.sessions;
    }
}

} // namespace

// -- sessions -----------------------------------------------------------------

session_record& cluster_state::add(session_record x, time_point now) {
  if (x.spec.group != 0)
    groups.emplace(x.spec.group, x.id);
  x.swapping.queued_at = now;
  return sessions[x.id] = std::move(x);
}

session_record cluster_state::remove(session_id id) {
  auto i = sessions.find(id);
  auto out = std::move(i->second);
  sessions.erase(i);
  groups.erase({out.spec.group, out.id});
  return out;
}

session_record* cluster_state::find(session_id id) {
  auto i = sessions.find(id);
  return i == sessions.end() ? nullptr : &i->second;
}

void cluster_state::save(const session_record& x) {
  if (kept != nullptr)
    kept->save(x);
}

policy::demand cluster_state::demand_of(const session_record& x) const {
  auto out = policy::demand_of(x.spec, x.program.host);
  out.previous = x.where;
  out.failing = x.failing;
  // A tenant's session knows nothing of another's, whatever number its program
  // names.
  auto is_own = [tenant = tenant_of(x.tenant)](const session_record& other) {
    return tenant_of(other.tenant) == tenant;
  };
  // A group has one host, because its processes were started together.
  if (x.spec.group != 0)
    for (auto i = groups.lower_bound({x.spec.group, {}});
         i != groups.end() && i->first == x.spec.group; ++i)
      if (const auto& other = sessions.at(i->second);
          other.id != x.id && other.placed() && is_own(other) &&
          other.program.host == x.program.host)
        out.affinity.push_back(other.where);
  if (!x.spec.beside && !x.spec.apart)
    return out;
  for (const auto& [id, other] : sessions) {
    if (other.stage == session_stage::waiting || id == x.id || !is_own(other))
      continue;
    if (x.spec.beside && other.vgpu == x.spec.beside)
      out.beside.push_back(other.where);
    if (x.spec.apart && other.vgpu == x.spec.apart)
      out.apart.push_back(other.where);
  }
  return out;
}

// -- nodes --------------------------------------------------------------------

bool cluster_state::alive(const std::string& node) const {
  auto i = nodes.find(node);
  return i != nodes.end() && i->second.state == node_record::stage::alive;
}

bool cluster_state::on_one_host(const std::string& node,
                                const std::string& other) const {
  return alive(node) && alive(other) &&
         nodes.at(node).info.host == nodes.at(other).info.host;
}

status cluster_state::check_node(const std::string& name) const {
  if (alive(name))
    return {};
  return fault{fault_kind::usage,
               "no node '" + printable(name) +
                   "' is alive; `vgpu status` lists the nodes"};
}

status cluster_state::check_pgpu(const std::string& node,
                                 std::uint32_t ordinal) const {
  if (auto ok = check_node(node); !ok)
    return ok;
  const auto& pgpus = nodes.at(node).info.pgpus;
  if (std::ranges::find(pgpus, ordinal, &control::pgpu::ordinal) == pgpus.end())
    return fault{fault_kind::usage,
                 "node " + node + " has no pGPU " + std::to_string(ordinal)};
  return {};
}

// -- views for decisions about places -----------------------------------------

policy::cluster_view cluster_state::view() const {
  policy::cluster_view out;
  std::map<std::string, std::size_t> index;
  for (const auto& [name, node] : nodes) {
    index[name] = out.nodes.size();
    out.nodes.push_back(node_view_of(name, node));
  }
  for (const auto& [id, x] : sessions)
    if (auto i = index.find(x.where.node); x.placed() && i != index.end())
      count_session(out.nodes[i->second], x);
  return out;
}

policy::cluster_view cluster_state::view_for_placement() const {
  auto out = view();
  // A node whose connection has just closed is most likely dead. Otherwise it
  // reconnects in a moment.
  for (auto& node : out.nodes)
    node.alive = node.alive && !nodes.at(node.name).seen.closed &&
                 !nodes.at(node.name).draining;
  return out;
}

} // namespace vgpu
