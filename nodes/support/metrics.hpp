// Metrics in the format of Prometheus.
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

/// Adds the option `--metrics HOST:PORT` of the manager and of nodes.
void describe_metrics(CLI::App& app, std::string& address);

/// Returns a snapshot as families of metrics, which docs/using/usage.md lists.
/// Throws nlohmann::json::exception when `x.status` is not a status.
std::vector<prometheus::MetricFamily> families_of(const metrics_snapshot& x);

/// Answers HTTP GET /metrics on threads of its own for as long as it exists.
class metrics_server {
public:
  /// Listens on `address` (HOST:PORT; port 0 takes a free one) and asks
  /// `source` at each request. A source that does not answer within 2 s yields
  /// an empty page. Fails with the reason where it cannot listen. Returns null
  /// where the address is empty.
  static result<std::unique_ptr<metrics_server>>
  start(caf::actor_system& system, metrics_source source,
        const std::string& address);
  ~metrics_server();

  /// Returns the URL at which it listens, http://HOST:PORT/metrics.
  const std::string& url() const noexcept { return url_; }

private:
  metrics_server() = default;

  std::shared_ptr<prometheus::Collectable> source_;
  std::unique_ptr<prometheus::Exposer> exposer_;
  std::string url_;
};

} // namespace vgpu
