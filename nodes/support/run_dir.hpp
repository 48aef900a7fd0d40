// The directory in which the processes of a cluster keep their files.
#pragma once

#include "schema/base/endpoints.hpp"
#include "schema/base/fault.hpp"

#include <string>

namespace vgpu {

/// Makes `path`, for this user alone, unless it is there. The value tells
/// whether it was made. Fails when it is there and somebody else's.
result<bool> make_private_dir(const std::string& path);

/// One process's part in a run directory that goes with the last of them,
/// however the others ended. Held as long as the process keeps files there.
class run_dir_part {
public:
  /// No part in any.
  run_dir_part() = default;
  /// Precondition: the directory is there.
  explicit run_dir_part(std::string path);
  run_dir_part(run_dir_part&& other) noexcept;
  run_dir_part& operator=(run_dir_part&&) = delete;
  /// Removes the directory and all in it, if nobody else has a part.
  ~run_dir_part();

private:
  std::string path_;
  int fd_ = -1;
};

} // namespace vgpu
