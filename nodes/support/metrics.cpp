#include "nodes/support/metrics.hpp"

#include "actors/link/control_values.hpp"
#include "actors/link/log.hpp"

#include <nlohmann/json.hpp>
#include <prometheus/exposer.h>

#include <algorithm>
#include <charconv>
#include <map>

namespace vgpu {

namespace {

using nlohmann::json;
using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using labels = std::vector<ClientMetric::Label>;

/// Holds families by name, in the order of their first metric.
class families {
public:
  void gauge(const char* name, const char* help, labels of, double value) {
    metric(name, help, MetricType::Gauge, std::move(of)).gauge.value = value;
  }

  void counter(const char* name, const char* help, labels of, double value) {
    metric(name, help, MetricType::Counter, std::move(of)).counter.value =
        value;
  }

  ClientMetric& metric(const char* name, const char* help, MetricType type,
                       labels of) {
    auto found = std::find_if(all_.begin(), all_.end(),
                              [&](auto& x) { return x.name == name; });
    if (found == all_.end())
      found = all_.insert(all_.end(), {name, help, type, {}});
    found->metric.push_back({});
    found->metric.back().label = std::move(of);
    return found->metric.back();
  }

  std::vector<MetricFamily> take() { return std::move(all_); }

private:
  std::vector<MetricFamily> all_;
};

void describe_pgpu(families& to, const std::string& node, const json& x) {
  auto of = labels{{"node", node},
                   {"pgpu", std::to_string(x.at("ordinal").get<unsigned>())},
                   {"backend", x.at("backend")},
                   {"model", x.at("name")}};
  to.gauge("vgpu_pgpu_memory_bytes", "Memory of a physical GPU.", of,
           x.at("memory").get<double>());
  to.gauge("vgpu_pgpu_used_bytes",
           "Memory of a physical GPU that its sessions use.", of,
           x.at("used").get<double>());
  if (auto load = x.find("load"); load != x.end())
    to.gauge("vgpu_pgpu_load",
             "Compute demand of a physical GPU's sessions, in GPUs; above 1, "
             "sessions wait.",
             of, load->get<double>());
  to.gauge("vgpu_pgpu_sessions", "Sessions placed on a physical GPU.", of,
           static_cast<double>(x.at("sessions").size()));
  to.gauge(
      "vgpu_pgpu_healthy", "1 if a physical GPU is healthy, else 0.", of,
      x.at("state") == control::name_of(control::pgpu_health::healthy) ? 1 : 0);
}

/// Adds the metrics of an account. `what` is "session" or "user".
void describe_usage(families& to, const std::string& what, const labels& of,
                    const json& used) {
  auto count = [&](const char* name, const char* help, const char* member,
                   double factor, const labels& with) {
    to.counter(("vgpu_" + what + name).c_str(), help, with,
               used.at(member).get<double>() * factor);
  };
  auto directed = [&](const char* direction) {
    auto out = of;
    out.push_back({"direction", direction});
    return out;
  };
  constexpr double mib = 1 << 20;
  count("_device_seconds_total",
        "Device time, without that of replays and migrations.",
        "device_seconds", 1, of);
  count("_replay_seconds_total", "Device time of replays and migrations.",
        "replay_seconds", 1, of);
  count("_copied_bytes_total", "Bytes between program and device.",
        "bytes_to_device", 1, directed("to_device"));
  count("_copied_bytes_total", "Bytes between program and device.",
        "bytes_from_device", 1, directed("from_device"));
  count("_memory_byte_seconds_total",
        "Integral of the device memory in use over time.", "memory_mib_seconds",
        mib, of);
}

void describe_session(families& to, const json& vgpu, const json& x) {
  auto of = labels{{"vgpu", std::to_string(vgpu.at("id").get<std::uint64_t>())},
                   {"session", std::to_string(x.at("id").get<std::uint64_t>())},
                   {"program", x.at("program")},
                   {"user", x.at("user")},
                   {"node", x.at("node")}};
  to.gauge("vgpu_session_memory_bytes", "Device memory of a session.", of,
           x.at("memory").get<double>());
  to.gauge("vgpu_session_quota_bytes",
           "Memory quota of a session on each device.", of,
           x.at("quota").get<double>());
  if (auto beside = x.find("beside"); beside != x.end())
    for (const auto& [kind, bytes] : beside->items()) {
      if (bytes.is_null())
        continue;
      auto with = of;
      with.push_back({"kind", kind});
      to.gauge("vgpu_session_beside_bytes",
               "GPU memory that a session uses in addition to its allocations.",
               with, bytes.get<double>());
    }
  to.counter("vgpu_session_calls_total",
             "Driver calls that a session's current worker has executed.", of,
             x.at("calls").get<double>());
  if (auto used = x.find("usage"); used != x.end())
    describe_usage(to, "session", of, *used);
  to.gauge("vgpu_session_epoch", "Epoch of a session: how often it was placed.",
           of, x.at("epoch").get<double>());
}

void describe_status(families& to, const json& status) {
  std::map<std::string, int> nodes, sessions;
  for (const auto& node : status.at("nodes")) {
    ++nodes[node.at("state")];
    for (const auto& pgpu : node.at("pgpus"))
      describe_pgpu(to, node.at("name"), pgpu);
  }
  for (const auto& vgpu : status.at("vgpus")) {
    to.gauge("vgpu_vgpu_share", "Requested share of a GPU's compute.",
             {{"vgpu", std::to_string(vgpu.at("id").get<std::uint64_t>())}},
             vgpu.at("share").get<double>());
    for (const auto& session : vgpu.at("sessions")) {
      ++sessions[session.at("state")];
      describe_session(to, vgpu, session);
    }
  }
  for (const auto& [state, count] : nodes)
    to.gauge("vgpu_nodes", "Nodes by state.", {{"state", state}}, count);
  for (const auto& [state, count] : sessions)
    to.gauge("vgpu_sessions",
             "Sessions by state; those in state waiting are queued.",
             {{"state", state}}, count);
  if (auto manager = status.find("manager"); manager != status.end()) {
    to.gauge("vgpu_manager_leads",
             "1 if this manager leads, 0 if it is a standby.", {},
             manager->value("leads", true) ? 1 : 0);
    to.gauge("vgpu_manager_uptime_seconds",
             "Seconds since the manager started.", {},
             manager->at("uptime").get<double>());
  }
}

void describe_events(families& to, const event_tally& events) {
  for (const auto& [kind, x] : events.kinds()) {
    auto of = labels{{"kind", kind}};
    to.counter("vgpu_events_total", "Events by kind.", of,
               static_cast<double>(x.count));
    if (x.timed == 0)
      continue;
    auto& out = to.metric("vgpu_event_duration_seconds",
                          "Duration of what an event reports, by kind.",
                          MetricType::Histogram, of)
                    .histogram;
    out.sample_count = x.timed;
    out.sample_sum = x.milliseconds / 1e3;
    for (std::size_t i = 0; i < tally::bounds.size(); ++i)
      out.bucket.push_back({x.within[i], tally::bounds[i] / 1e3});
  }
}

/// Asks an actor at each request.
class actor_source final : public prometheus::Collectable {
public:
  actor_source(caf::actor_system& system, metrics_source source)
      : system_(system), source_(std::move(source)) {}

  std::vector<MetricFamily> Collect() const override {
    std::vector<MetricFamily> out;
    caf::scoped_actor self{system_};
    self->request(source_, std::chrono::seconds{2}, metrics_ask{})
        .receive([&](const metrics_ptr& x) { out = families_of(*x); },
                 [](const caf::error& why) {
                   spdlog::warn("A metrics request gets an empty answer: no "
                                "status within 2 s: {}",
                                caf::to_string(why));
                 });
    return out;
  }

private:
  caf::actor_system& system_;
  metrics_source source_;
};

/// Returns whether the text is HOST:PORT.
bool good_address(std::string_view x) {
  auto colon = x.rfind(':');
  if (colon == x.npos || colon == 0)
    return false;
  auto digits = x.substr(colon + 1);
  std::uint16_t port = 0;
  auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), port);
  return error == std::errc{} && end == digits.data() + digits.size();
}

} // namespace

void describe_metrics(CLI::App& app, std::string& address) {
  app.add_option("--metrics", address,
                 "HOST:PORT on which to serve metrics to Prometheus, such as "
                 "127.0.0.1:9400 (default: off)");
}

std::vector<MetricFamily> families_of(const metrics_snapshot& x) {
  families out;
  describe_status(out, json::parse(x.status));
  if (!x.usage.empty()) {
    auto used = json::parse(x.usage);
    for (const auto& each : used.at("entries"))
      describe_usage(out, "user", {{"user", each.at("user")}}, each);
  }
  describe_events(out, x.events);
  return out.take();
}

result<std::unique_ptr<metrics_server>>
metrics_server::start(caf::actor_system& system, metrics_source source,
                      const std::string& address) {
  if (address.empty())
    return std::unique_ptr<metrics_server>{};
  if (!good_address(address))
    return fault{fault_kind::usage,
                 "'" + address + "': give HOST:PORT, such as 127.0.0.1:9400"};
  std::unique_ptr<metrics_server> out{new metrics_server};
  try {
    out->exposer_ = std::make_unique<prometheus::Exposer>(address, 2);
  } catch (const std::exception& e) {
    return fault{fault_kind::system,
                 "cannot listen on '" + address + "': " + e.what()};
  }
  out->source_ = std::make_shared<actor_source>(system, std::move(source));
  out->exposer_->RegisterCollectable(out->source_);
  out->url_ = "http://" + address.substr(0, address.rfind(':')) + ":" +
              std::to_string(out->exposer_->GetListeningPorts().at(0)) +
              "/metrics";
  return out;
}

metrics_server::~metrics_server() = default;

} // namespace vgpu
