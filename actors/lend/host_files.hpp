// Files of a program's that kernels reach through the host window.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/catalogue/calls.hpp"
#include "schema/log/session_area.hpp"

#include <map>
#include <memory>
#include <sys/types.h>

namespace vgpu {

/// A worker takes such a file from the program's process itself, by the number
/// that it has there (proc(5), /proc/PID/fd). A hostile program could name
/// another process, to which the worker has access and it has not: so only a
/// process that has this session's control area counts, and neither the worker
/// nor the client, which have it, too. One thread.
class host_files {
public:
  /// The area is mapped, its host window too.
  explicit host_files(std::shared_ptr<const session_area> area)
      : area_{std::move(area)} {}

  /// The session's client, which is not its program.
  void served_by(pid_t client) noexcept { client_ = client; }

  /// CUDA_ERROR_INVALID_VALUE for what is no file of the program's or not
  /// within the host window, CUDA_ERROR_NOT_SUPPORTED where this process may
  /// not look at the program's.
  status show(const call::host_file& what);
  /// Whatever was shown there is not any more.
  status hide(device_address address, std::uint64_t bytes);

private:
  std::shared_ptr<const session_area> area_;
  pid_t client_ = 0;
  std::map<device_address, std::uint64_t> shown_;
};

} // namespace vgpu
