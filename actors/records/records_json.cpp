#include "actors/records/records_json.hpp"

namespace vgpu {

using nlohmann::json;

namespace {

json to_json(const control::specification& x) {
  return {{"share", x.share},
          {"memory", x.memory},
          {"gpus", x.gpus},
          {"protection", static_cast<unsigned>(x.protection)},
          {"limit", x.limit},
          {"priority", x.priority},
          {"wanted_node", x.node},
          {"wanted_pgpu", x.pgpu},
          {"backend", x.backend},
          {"where", static_cast<unsigned>(x.where)},
          {"beside", x.beside.value},
          {"apart", x.apart.value},
          {"wait_ms", x.wait_ms},
          {"idle_after_ms", x.idle_after_ms},
          {"snapshot_ms", x.snapshot_ms},
          {"recover_within_ms", x.recover_within_ms},
          {"protect_cost", x.protect_cost},
          {"on_divergence", static_cast<unsigned>(x.on_divergence)},
          {"group", x.group},
          {"capability", x.capability}};
}

/// Members that an earlier release did not write have their defaults.
control::specification spec_from_json(const json& x) {
  control::specification out;
  out.share = x.at("share");
  out.memory = x.at("memory");
  out.gpus = x.at("gpus");
  auto protection = x.at("protection").get<unsigned>();
  if (protection <= static_cast<unsigned>(control::protection::snapshot))
    out.protection = static_cast<control::protection>(protection);
  out.limit = x.value("limit", out.limit);
  out.priority = x.value("priority", out.priority);
  out.node = x.value("wanted_node", out.node);
  out.pgpu = x.value("wanted_pgpu", out.pgpu);
  out.backend = x.value("backend", out.backend);
  auto where = x.value("where", 0u);
  if (where <= static_cast<unsigned>(control::locality::any))
    out.where = static_cast<control::locality>(where);
  out.beside = {x.value("beside", std::uint64_t{0})};
  out.apart = {x.value("apart", std::uint64_t{0})};
  out.wait_ms = x.value("wait_ms", out.wait_ms);
  out.idle_after_ms = x.value("idle_after_ms", out.idle_after_ms);
  out.snapshot_ms = x.value("snapshot_ms", out.snapshot_ms);
  out.recover_within_ms = x.value("recover_within_ms", out.recover_within_ms);
  out.protect_cost = x.value("protect_cost", out.protect_cost);
  auto divergence = x.value("on_divergence", 0u);
  if (divergence <= static_cast<unsigned>(control::divergence::snapshot))
    out.on_divergence = static_cast<control::divergence>(divergence);
  out.group = x.value("group", out.group);
  out.capability = x.value("capability", out.capability);
  return out;
}

json to_json(const control::program& x) {
  return {{"name", x.name}, {"pid", x.pid}, {"host", x.host}, {"user", x.user}};
}

control::program program_from_json(const json& x) {
  return {x.at("name"), x.at("pid"), x.at("host"), x.at("user")};
}

/// Reads an unknown text as `running`: the node and the client report how the
/// session is.
session_stage stage_from_json(const json& x) {
  return value_in(session_stage_names, text_of(x))
      .value_or(session_stage::running);
}

} // namespace

json to_json(const control::event& x) {
  json out{{"number", x.number},
           {"time", x.time},
           {"kind", x.kind},
           {"node", x.node},
           {"session", x.session.value},
           {"vgpu", x.vgpu.value},
           {"epoch", x.epoch.value},
           {"text", x.text}};
  if (x.calls != 0)
    out["calls"] = x.calls;
  if (x.bytes != 0)
    out["bytes"] = x.bytes;
  if (x.milliseconds != 0)
    out["milliseconds"] = x.milliseconds;
  if (!x.tenant.empty())
    out["tenant"] = x.tenant;
  return out;
}

control::event event_from_json(const json& x) {
  control::event out;
  out.number = x.at("number");
  out.time = x.at("time");
  out.kind = x.at("kind");
  out.node = x.at("node");
  out.session = {x.at("session")};
  out.vgpu = {x.at("vgpu")};
  out.epoch = {x.at("epoch")};
  out.text = x.at("text");
  out.calls = x.value("calls", std::uint64_t{0});
  out.bytes = x.value("bytes", std::uint64_t{0});
  out.milliseconds = x.value("milliseconds", 0.0);
  out.tenant = x.value("tenant", std::string{});
  return out;
}

json to_json(const session_record& x) {
  auto tokens = json::array();
  for (auto [number, token] : x.tokens)
    tokens.push_back({number, token});
  return {{"id", x.id.value},
          {"vgpu", x.vgpu.value},
          {"epoch", x.epoch.value},
          {"tokens", tokens},
          {"spec", to_json(x.spec)},
          {"program", to_json(x.program)},
          {"stage", name_of(x.stage)},
          {"node", x.where.node},
          {"pgpus", x.where.pgpus},
          {"endpoint", x.worker.endpoint},
          {"guest_socket", x.worker.guest_socket},
          {"host", x.worker.host},
          {"worker_key", x.worker.key},
          {"pid", x.pid},
          {"quota", x.quota},
          {"largest_quota", x.largest_quota},
          {"client", x.client},
          {"tenant", x.tenant},
          {"client_key", x.client_key},
          {"lease_key", x.lease_key},
          {"reason", x.reason},
          {"had_lease", x.had_lease},
          {"held", x.held},
          {"checkpointed", x.checkpointed},
          {"preempted", x.preempted}};
}

session_record session_from_json(const json& x) {
  session_record out;
  out.id = {x.at("id")};
  out.vgpu = {x.at("vgpu")};
  out.epoch = {x.at("epoch")};
  for (const auto& each : x.at("tokens"))
    out.tokens[each.at(0)] = each.at(1);
  out.spec = spec_from_json(x.at("spec"));
  out.program = program_from_json(x.at("program"));
  out.stage = stage_from_json(x.at("stage"));
  out.where = {x.at("node"), x.at("pgpus")};
  out.worker = {x.at("endpoint"), x.at("guest_socket"), x.at("host"),
                x.value("worker_key", std::string{})};
  out.pid = x.at("pid");
  out.quota = x.at("quota");
  out.largest_quota = x.value("largest_quota", out.quota);
  out.client = x.at("client");
  out.tenant = x.value("tenant", std::string{});
  out.client_key = x.value("client_key", std::string{});
  out.lease_key = x.value("lease_key", out.client_key);
  out.reason = x.at("reason");
  out.had_lease = x.at("had_lease");
  out.held = x.value("held", false);
  // Earlier stores call it so.
  out.checkpointed = x.value("checkpointed", x.value("aside", false));
  out.preempted = x.value("preempted", false);
  return out;
}

json to_json(const control::tenant_limits& x) {
  auto out = json::object();
  if (x.gpus != control::unlimited)
    out["gpus"] = x.gpus;
  if (x.memory != control::unlimited)
    out["memory"] = x.memory;
  if (x.share != control::unlimited_share)
    out["share"] = x.share;
  if (x.sessions != control::unlimited)
    out["sessions"] = x.sessions;
  if (x.priority != control::largest_priority)
    out["priority"] = x.priority;
  return out;
}

control::tenant_limits limits_from_json(const json& x) {
  control::tenant_limits out;
  out.gpus = x.value("gpus", out.gpus);
  out.memory = x.value("memory", out.memory);
  out.share = x.value("share", out.share);
  out.sessions = x.value("sessions", out.sessions);
  out.priority = x.value("priority", out.priority);
  return out;
}

json to_json(const control::side_memory& x) {
  auto known = [](std::int64_t bytes) {
    return bytes < 0 ? json{} : json(bytes);
  };
  return {{"variables", known(x.variables)},
          {"code", known(x.code)},
          {"context", known(x.context)}};
}

std::string text_of(const json& x) {
  return x.is_string() ? x.get<std::string>() : x.dump();
}

std::string to_line(const json& x) {
  return x.dump(-1, ' ', false, json::error_handler_t::replace);
}

} // namespace vgpu
