// Metrics in the form of Prometheus.
#pragma once

#include "actors/records/metrics_query.hpp"
#include "schema/base/fault.hpp"

#include <prometheus/metric_family.h>

#include <caf/all.hpp>
#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

namespace prometheus {
class Collectable;
class Exposer;
} // namespace prometheus

namespace vgpu {

/// `--metrics HOST:PORT`, which manager and node have in common.
void describe_metrics(CLI::App& app, std::string& address);

/// A snapshot as families of metrics; docs/using/usage.md lists them. Throws
/// nlohmann::json::exception when `x.status` is no status.
std::vector<prometheus::MetricFamily> families_of(const metrics_snapshot& x);

/// Answers HTTP GET /metrics for as long as it lives, on threads of its own.
class metrics_server {
public:
  /// Listens on `address` (HOST:PORT; a port of 0 takes a free one) and asks
  /// `source` at each request. A source that does not answer within 2 s yields
  /// an empty page. Fails with the reason where it cannot listen; null where
  /// the address is empty.
  static result<std::unique_ptr<metrics_server>>
  start(caf::actor_system& system, caf::actor source,
        const std::string& address);
  ~metrics_server();

  /// Where it listens, for a person: http://HOST:PORT/metrics.
  const std::string& url() const noexcept { return url_; }

private:
  metrics_server() = default;

  std::shared_ptr<prometheus::Collectable> source_;
  std::unique_ptr<prometheus::Exposer> exposer_;
  std::string url_;
};

} // namespace vgpu
