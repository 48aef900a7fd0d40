// A program's files that kernels reach through the host window.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/catalogue/calls.hpp"
#include "schema/log/session_area.hpp"

#include <map>
#include <memory>
#include <sys/types.h>
#include <utility>

namespace vgpu {

/// Maps files of the program into the host window. The session's client opens
/// such a file for the worker, or, where the client is of an earlier release,
/// the worker itself. Not thread-safe.
class host_files {
public:
  /// Takes the session's area, whose host window must be mapped.
  explicit host_files(std::shared_ptr<const session_area> area)
      : area_{std::move(area)} {}

  /// Sets the process of the session's client, which is not its program.
  void served_by(pid_t client) noexcept { client_ = client; }

  /// Sets the socket at which the client opens files (program_files.hpp).
  void opened_at(unique_fd socket) noexcept { opener_ = std::move(socket); }

  /// Maps a file at its address. The fault is of kind `usage` where it is not a
  /// file of the program or lies outside the host window, and of kind
  /// `unsupported` where nobody may look at the program's files.
  status show(const call::host_file& what);
  /// Unmaps the file that show() mapped there.
  status hide(device_address address, std::uint64_t bytes);

private:
  result<unique_fd> open(const call::host_file& what) const;

  std::shared_ptr<const session_area> area_;
  unique_fd opener_;
  pid_t client_ = 0;
  std::map<device_address, std::uint64_t> shown_;
};

} // namespace vgpu
