// Host memory that the program allocated itself and registered (CUDA driver
// API, cuMemHostRegister).
#pragma once

#include "interposer/context/context.hpp"
#include "interposer/session/mirrored_memory.hpp"
#include "schema/base/ids.hpp"

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>

namespace vgpu::interposer {

/// Holds the registered ranges. Only the program can read their bytes, so its
/// own thread makes copies that the program does not wait for
/// (late_copies.hpp). Kernels use a range that the program mapped from a file,
/// such as shared memory, in place, because the host window maps the same
/// file. Of any other range they use a copy in the host window. Thread-safe.
class registered_memory {
public:
  struct range {
    std::uint64_t bytes = 0;
    unsigned flags = 0;
    std::uint64_t context = 0;
    std::uint8_t device = 0;
    std::uintptr_t begin = 0;
    /// Holds the value of CU_POINTER_ATTRIBUTE_BUFFER_ID.
    std::uint64_t serial = 0;
  };

  /// Registers a range. Returns CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED where
  /// it overlaps another one.
  CUresult add(const context& in, const void* at, std::uint64_t bytes,
               unsigned flags);
  /// Removes the range that begins there. Waits for the work that may use it.
  /// Returns CUDA_ERROR_INVALID_VALUE for an address inside a range, and
  /// CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED for one outside.
  CUresult remove(const void* at);
  /// Removes all ranges that the program registered in this context.
  void remove_all(std::uint64_t context);
  /// Finds the range that the pointer lies in.
  std::optional<range> find(const void* at) const;

  /// Tells whether the whole range is registered. Costs little where nothing
  /// is.
  bool holds(std::uintptr_t at, std::uint64_t bytes) const;

  /// Finds the range that begins at the pointer.
  std::optional<range> beginning_at(const void* at) const;

  /// Returns in `out` the address by which kernels use the memory. Returns
  /// CUDA_ERROR_INVALID_VALUE where it is not registered, and
  /// CUDA_ERROR_NOT_SUPPORTED where it is a shared, writable mapping to which
  /// the worker has no access. The first success for such a mapping ends the
  /// session's protection, because the journal does not contain other
  /// processes' writes to the file.
  CUresult device_pointer(context& in, const void* at, CUdeviceptr& out);

  /// Writes to the copies the bytes that the program changed. It runs before
  /// launches and waits, and before a stream continues after a host function.
  void put_changes();
  /// Writes to the program's memory the bytes that kernels changed. It runs
  /// after waits, and before a host function.
  void take_changes();

private:
  using range_map = std::map<std::uintptr_t, range>;

  /// Finds the range that the pointer lies in, or null. Precondition: the mutex
  /// is held.
  const range_map::value_type* holding(const void* at) const;

  /// Gives a range its address in the host window.
  CUresult show_range(context& in, std::uintptr_t begin, const range& what,
                      device_address& out);
  CUresult mirror(context& in, std::uintptr_t begin, const range& what,
                  device_address& out);
  void end_mirror(std::uintptr_t begin);

  mutable std::shared_mutex mutex_;
  range_map ranges_;
  std::atomic<std::size_t> count_{0}; // of ranges_
  std::mutex showing_mutex_;
  /// Maps the beginning of each range to the address of its first page in the
  /// host window.
  std::map<std::uintptr_t, device_address> shown_;
  std::mutex mirrors_mutex_;
  /// Holds the ranges of which kernels use copies, by their beginnings.
  std::map<std::uintptr_t, mirrored_memory> mirrors_;
  std::atomic<std::size_t> mirrors_count_{0}; // of mirrors_
};
/// Returns the process's registered memory. Precondition: the driver's state is
/// made.
registered_memory& registered() noexcept;

} // namespace vgpu::interposer
