#pragma once

#include "nodes/cluster/cluster_launcher.hpp"
#include "schema/base/fault.hpp"

#include <memory>
#include <string>

namespace vgpu {

/// An embedded_cluster is a cluster of one node for one owner, for use when
/// there is none to join. Its manager and its node are processes with a private
/// temporary directory. They end with this object, or with its process however
/// that ends, and leave nothing behind.
class embedded_cluster {
public:
  /// Returns when the node is registered. It chooses the run directory itself
  /// and ignores the one in `options`. Thread-safe.
  static result<std::unique_ptr<embedded_cluster>>
  start(cluster_options options = {});

  ~embedded_cluster();
  embedded_cluster(const embedded_cluster&) = delete;
  embedded_cluster& operator=(const embedded_cluster&) = delete;

  /// Returns the manager's endpoint.
  const std::string& endpoint() const noexcept { return record_.endpoint; }
  const std::string& run_dir() const noexcept { return record_.run_dir; }

private:
  embedded_cluster(cluster_record record, int owner)
      : record_(std::move(record)), owner_(owner) {}

  cluster_record record_;
  /// Is the write end of the pipe that all processes watch.
  int owner_;
};

} // namespace vgpu
