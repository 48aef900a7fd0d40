#include "actors/manager/status_report.hpp"

#include "actors/records/records_json.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

namespace vgpu {

using nlohmann::json;

namespace {

bool holds(const session_record& x, const std::string& node,
           std::uint32_t pgpu) {
  return x.placed() && x.where.node == node &&
         std::count(x.where.pgpus.begin(), x.where.pgpus.end(), pgpu) != 0;
}

json describe_pgpu(const control::pgpu& pgpu, const std::string& node,
                   const std::map<session_id, session_record>& sessions) {
  auto ids = json::array();
  auto used = std::uint64_t{0};
  auto load = 0.0;
  for (const auto& [id, x] : sessions)
    if (holds(x, node, pgpu.ordinal)) {
      ids.push_back(id.value);
      used += x.load.memory_bytes;
      load += x.measured.load.value_or(0);
    }
  return {{"ordinal", pgpu.ordinal},
          {"backend", pgpu.backend},
          {"name", pgpu.facts.name},
          {"memory", pgpu.facts.total_memory},
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
      {"connected", !x.client_peer.empty()},
      {"memory", x.load.memory_bytes},
      {"quota", x.quota},
      {"beside", to_json(placed ? x.load.side : control::side_memory{0, 0, 0})},
      {"calls", x.load.calls},
      {"device_seconds", static_cast<double>(x.load.device_ns) / 1e9},
      {"turns", x.load.turns},
      {"idle_seconds", placed ? static_cast<double>(x.load.idle_ms) / 1e3 : 0},
      {"usage", bill_of(used)}};
}

json describe_nodes(const cluster_state& state) {
  auto out = json::array();
  for (const auto& [name, node] : state.nodes) {
    auto pgpus = json::array();
    for (const auto& pgpu : node.info.pgpus)
      pgpus.push_back(describe_pgpu(pgpu, name, state.sessions));
    out.push_back({{"name", name},
                   {"host", node.info.host},
                   {"pid", node.info.pid},
                   {"state", name_of(node.state)},
                   {"draining", node.draining},
                   {"pgpus", std::move(pgpus)}});
  }
  return out;
}

/// Lists each vGPU with the sessions that use it.
json describe_vgpus(const cluster_state& state, const accounts& books) {
  std::map<vgpu_id, json> vgpus;
  for (const auto& [id, x] : state.sessions) {
    auto& entry = vgpus[x.vgpu];
    if (entry.is_null())
      entry = {{"id", x.vgpu.value},
               {"share", x.spec.share},
               {"limit", x.spec.limit},
               {"priority", x.spec.priority},
               {"memory", x.spec.memory},
               {"gpus", x.spec.gpus},
               {"protection", name_of(x.spec.protection)},
               {"sessions", json::array()}};
    entry["sessions"].push_back(describe_session(x, books.of(id)));
  }
  auto out = json::array();
  for (auto& [id, entry] : vgpus)
    out.push_back(std::move(entry));
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

std::string status_report::json() const {
  auto uptime =
      std::chrono::duration<double>(clock_.now() - clock_.started()).count();
  return to_line({{"manager",
                   {{"endpoint", options_.endpoint},
                    {"placement", options_.placement_name},
                    {"incarnation", peers_.incarnation()},
                    {"leads", true},
                    {"term", numbers_.right().term},
                    {"nodes_may_come", numbers_.nodes_may_come()},
                    {"pid", ::getpid()},
                    {"uptime", uptime},
                    {"events", out_.last_event()}}},
                  {"nodes", describe_nodes(state_)},
                  {"vgpus", describe_vgpus(state_, accounts_)}});
}

} // namespace vgpu
