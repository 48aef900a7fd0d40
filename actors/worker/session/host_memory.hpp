// The host memory that CUDA allocates for a session, in its worker.
#pragma once

#include "actors/lend/host_files.hpp"
#include "actors/worker/session/zero_copy_shadow.hpp"
#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"
#include "schema/log/session_area.hpp"

#include <cstdint>
#include <memory>
#include <utility>

namespace vgpu {

/// Holds the session's host window: the program's own memory where it is mapped
/// here, or memory of the worker's at the same addresses where the program is
/// elsewhere. Not thread-safe.
class host_memory {
public:
  /// Records that the program's memory is mapped at its addresses. `files` maps
  /// its files there.
  void mapped(std::uint64_t bytes, std::shared_ptr<host_files> files) {
    bytes_ = bytes;
    files_ = std::move(files);
  }

  /// Stands in for the host window in a dry run, in which no call uses the
  /// memory itself. There is none then, and addresses are audited as always.
  void stand_in() noexcept { bytes_ = window_bytes; }

  /// Raises the session's quota on all devices together, which bounds what the
  /// worker keeps of memory that kernels use in place.
  void allow(std::uint64_t quota);

  /// Makes memory at the addresses of the host window, unless there is some.
  /// Fails with CUDA_ERROR_OPERATING_SYSTEM where these addresses are taken.
  status make_shadow();
  /// Returns whether the memory is the worker's own.
  bool is_shadow() const noexcept { return shadow_.size() != 0; }

  /// Returns whether a range lies in the memory.
  bool holds(device_address address, std::uint64_t bytes) const {
    return is_within_host_window(address, bytes, bytes_);
  }

  /// Returns the copy that kernels use in place; null where the memory is the
  /// program's.
  const std::shared_ptr<zero_copy_shadow>& zero_copy() const noexcept {
    return zero_copy_;
  }
  /// Returns the program's files; null where the program is elsewhere.
  host_files* files() const noexcept { return files_.get(); }

private:
  std::uint64_t bytes_ = 0;
  std::uint64_t quota_ = 0;
  mapping shadow_;
  std::shared_ptr<zero_copy_shadow> zero_copy_;
  std::shared_ptr<host_files> files_;
};

} // namespace vgpu
