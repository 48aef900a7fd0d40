// A program's files that kernels reach through the host window.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/catalogue/calls.hpp"
#include "schema/log/session_area.hpp"

#include <map>
#include <memory>
#include <sys/types.h>

namespace vgpu {

/// Maps files of the program into the host window. The worker opens such a file
/// through the program's process, by the program's own descriptor number
/// (proc(5), /proc/PID/fd). A hostile program could name another process to
/// which only the worker has access. So a process counts only if it has this
/// session's control area open and is neither the worker nor the client, which
/// have it open too. Not thread-safe.
class host_files {
public:
  /// Takes the session's area, whose host window must be mapped.
  explicit host_files(std::shared_ptr<const session_area> area)
      : area_{std::move(area)} {}

  /// Sets the process of the session's client, which is not its program.
  void served_by(pid_t client) noexcept { client_ = client; }

  /// Maps a file at its address. The fault is of kind `usage` where it is not a
  /// file of the program or lies outside the host window, and of kind
  /// `unsupported` where this process may not look at the program's
  /// files.
  status show(const call::host_file& what);
  /// Unmaps the file that show() mapped there.
  status hide(device_address address, std::uint64_t bytes);

private:
  std::shared_ptr<const session_area> area_;
  pid_t client_ = 0;
  std::map<device_address, std::uint64_t> shown_;
};

} // namespace vgpu
