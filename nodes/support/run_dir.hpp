// The run directory of a cluster.
#pragma once

#include "schema/base/endpoints.hpp"
#include "schema/base/fault.hpp"

#include <string>

namespace vgpu {

/// Makes `path` for this user alone, unless it exists. Returns whether it was
/// made. Fails when it exists and belongs to another user.
result<bool> make_private_dir(const std::string& path);

/// Returns a fault where `path` is something else than a directory of this user
/// that nobody else can enter. It may be missing. Another user can make a
/// directory in /tmp first, and a cluster in it would belong to that user.
status check_own_dir(const std::string& path);

/// Returns a fault where an ipc:// endpoint lies in a directory that this user
/// did not choose (default_run_dir(), or that of a client's own cluster), and
/// the directory or who listens there belongs to another user. All other
/// endpoints are good: who names them decides whom to trust.
status check_own_cluster(const std::string& endpoint);

/// Returns the default directory of the cluster that a client starts itself.
std::string own_cluster_dir();

/// A run_dir_part is one process's part in a run directory. The last part to
/// end removes the directory, however the other processes ended. Hold it as
/// long as the process has files there.
class run_dir_part {
public:
  /// Makes an object without a part in any directory.
  run_dir_part() = default;
  /// Takes a part in a directory, which must exist.
  explicit run_dir_part(std::string path);
  run_dir_part(run_dir_part&& other) noexcept;
  run_dir_part& operator=(run_dir_part&&) = delete;
  /// Removes the directory and everything in it, if no other process has a
  /// part.
  ~run_dir_part();

private:
  std::string path_;
  int fd_ = -1;
};

} // namespace vgpu
