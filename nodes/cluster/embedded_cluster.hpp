#pragma once

#include "nodes/cluster/cluster_launcher.hpp"
#include "schema/base/fault.hpp"

#include <memory>
#include <string>

namespace vgpu {

/// A cluster of one node for one owner, when there is none to join: a manager
/// and a node as processes in a private temporary directory. They end when
/// this object does, or when its process dies in whatever way, and leave
/// nothing behind.
class embedded_cluster {
public:
  /// Returns when the node is registered. Of `options`, the run directory is
  /// chosen here. Callable from any thread.
  static result<std::unique_ptr<embedded_cluster>>
  start(cluster_options options = {});

  ~embedded_cluster();
  embedded_cluster(const embedded_cluster&) = delete;
  embedded_cluster& operator=(const embedded_cluster&) = delete;

  /// Where its manager listens.
  const std::string& endpoint() const noexcept { return record_.endpoint; }
  const std::string& run_dir() const noexcept { return record_.run_dir; }

private:
  embedded_cluster(cluster_record record, int owner)
      : record_(std::move(record)), owner_(owner) {}

  cluster_record record_;
  int owner_; // write end of the pipe that they all watch
};

} // namespace vgpu
