// The run directory of a cluster.
#pragma once

#include "schema/base/endpoints.hpp"
#include "schema/base/fault.hpp"

#include <string>

namespace vgpu {

/// Makes `path` for this user alone, unless it exists. Returns whether it was
/// made. Fails when it exists and belongs to another user.
result<bool> make_private_dir(const std::string& path);

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
