#include "actors/manager/status_report.hpp"

#include "actors/records/records_json.hpp"
#include "actors/records/tenant_quota.hpp"

#include <unistd.h>

#include <chrono>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace vgpu {

using nlohmann::json;

namespace {

/// Names the pGPUs by node and ordinal, and holds their sessions.
using holders = std::map<std::pair<std::string, std::uint32_t>,
                         std::vector<const session_record*>>;

holders holders_of(const status_view& view) {
  holders out;
  for (const auto& [x, used] : view.sessions)
    if (x.placed())
      for (auto ordinal :
           std::set<std::uint32_t>(x.where.pgpus.begin(), x.where.pgpus.end()))
        out[{x.where.node, ordinal}].push_back(&x);
  return out;
}

json describe_pgpu(const status_pgpu& pgpu, const std::string& node,
                   const holders& all) {
  auto ids = json::array();
  auto used = std::uint64_t{0};
  auto load = 0.0;
  if (auto here = all.find({node, pgpu.ordinal}); here != all.end())
    for (const auto* x : here->second) {
      ids.push_back(x->id.value);
      used += x->load.memory_bytes;
      load += x->measured.load.value_or(0);
    }
  return {{"ordinal", pgpu.ordinal},
          {"backend", pgpu.backend},
          {"name", pgpu.name},
          {"memory", pgpu.memory},
          {"used", used},
          {"load", load},
          {"state", control::name_of(pgpu.state)},
          {"policy", pgpu.policy},
          {"quantum_ms", pgpu.quantum_us / 1000.0},
          {"sessions", std::move(ids)}};
}

json describe_session(const session_record& x, const control::usage& used) {
  auto placed = x.placed();
  return {
      {"id", x.id.value},
      {"epoch", x.epoch.value},
      {"state", name_of(x.stage)},
      {"waiting_because", placed ? "" : x.waiting_because},
      {"held", x.held},
      {"checkpointed", x.checkpointed},
      {"state_bytes", x.state_bytes},
      {"moving", x.moving.has_value()},
      {"node", placed ? x.where.node : ""},
      {"pgpus", placed ? x.where.pgpus : std::vector<std::uint32_t>{}},
      {"worker_pid", x.pid},
      {"program", x.program.name},
      {"pid", x.program.pid},
      {"host", x.program.host},
      {"user", x.program.user},
      {"client", x.client},
      {"tenant", tenant_of(x.tenant)},
      {"connected", !x.client_peer.empty()},
      {"memory", x.load.memory_bytes},
      {"quota", x.quota},
      {"beside", to_json(placed ? x.load.side : control::side_memory{0, 0, 0})},
      {"recovers", x.recovers},
      {"standby", x.load.standby},
      {"managed_memory", x.touches},
      {"calls", x.load.calls},
      {"device_seconds", static_cast<double>(x.load.device_ns) / 1e9},
      {"turns", x.load.turns},
      {"idle_seconds", placed ? static_cast<double>(x.load.idle_ms) / 1e3 : 0},
      {"usage", bill_of(used)}};
}

json describe_nodes(const status_view& view) {
  auto all = holders_of(view);
  auto out = json::array();
  for (const auto& node : view.nodes) {
    auto pgpus = json::array();
    for (const auto& pgpu : node.pgpus)
      pgpus.push_back(describe_pgpu(pgpu, node.name, all));
    out.push_back({{"name", node.name},
                   {"host", node.host},
                   {"pid", node.pid},
                   {"state", name_of(node.state)},
                   {"draining", node.draining},
                   {"sandbox", node.sandbox},
                   {"insecure_network", node.insecure_network},
                   {"pgpus", std::move(pgpus)}});
  }
  return out;
}

/// Lists each vGPU with the sessions that use it.
json describe_vgpus(const status_view& view) {
  std::map<vgpu_id, json> vgpus;
  for (const auto& [x, used] : view.sessions) {
    auto& entry = vgpus[x.vgpu];
    if (entry.is_null())
      entry = {{"id", x.vgpu.value},
               {"share", x.spec.share},
               {"limit", x.spec.limit},
               {"priority", x.spec.priority},
               {"memory", x.spec.memory},
               {"gpus", x.spec.gpus},
               {"protection", name_of(x.spec.protection)},
               {"recover_within", x.spec.recover_within_ms / 1000.0},
               {"protect_cost", x.spec.protect_cost},
               {"on_divergence", name_of(x.spec.on_divergence)},
               {"sessions", json::array()}};
    entry["sessions"].push_back(describe_session(x, used));
  }
  auto out = json::array();
  for (auto& [id, entry] : vgpus)
    out.push_back(std::move(entry));
  return out;
}

status_node copy_of(const node_record& x) {
  status_node out{
      x.info.name, x.info.host, x.info.pid,     x.state,
      x.draining,  {},          x.info.sandbox, x.info.insecure_network};
  for (const auto& each : x.info.pgpus)
    out.pgpus.push_back({each.ordinal, each.backend, each.facts.name,
                         each.facts.total_memory, each.state, each.policy,
                         each.quantum_us});
  return out;
}

} // namespace

status_report::status_report(const manager_options& options,
                             const manager_clock& clock,
                             const cluster_state& state, const outbox& out,
                             const accounts& books, const term_numbers& numbers,
                             const peer_registry& peers)
    : options_(options), clock_(clock), state_(state), out_(out),
      accounts_(books), numbers_(numbers), peers_(peers) {}

status_view_ptr
status_report::view(const std::optional<std::string>& only) const {
  status_view out;
  out.endpoint = options_.endpoint;
  out.insecure_network = options_.insecure_network;
  out.placement = options_.placement_name;
  out.incarnation = peers_.incarnation();
  out.term = numbers_.right().term;
  out.nodes_may_come = numbers_.nodes_may_come();
  out.uptime =
      std::chrono::duration<double>(clock_.now() - clock_.started()).count();
  if (!only) {
    out.last_event = out_.last_event();
    out.pid = static_cast<std::uint32_t>(::getpid());
    out.sessions.reserve(state_.sessions.size());
  }
  for (const auto& [name, node] : state_.nodes) {
    out.nodes.push_back(copy_of(node));
    if (only)
      out.nodes.back().pid = 0;
  }
  for (const auto& [id, x] : state_.sessions)
    if (!only || tenant_of(x.tenant) == *only)
      out.sessions.emplace_back(x, accounts_.of(id));
  return std::make_shared<const status_view>(std::move(out));
}

std::string to_json(const status_view& x) {
  return to_line({{"manager",
                   {{"endpoint", x.endpoint},
                    {"insecure_network", x.insecure_network},
                    {"placement", x.placement},
                    {"incarnation", x.incarnation},
                    {"leads", true},
                    {"term", x.term},
                    {"nodes_may_come", x.nodes_may_come},
                    {"pid", x.pid},
                    {"uptime", x.uptime},
                    {"events", x.last_event}}},
                  {"nodes", describe_nodes(x)},
                  {"vgpus", describe_vgpus(x)}});
}

} // namespace vgpu
