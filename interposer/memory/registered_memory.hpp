// Host memory that the program made itself and registered (CUDA driver API,
// cuMemHostRegister).
#pragma once

#include "interposer/context/context.hpp"
#include "schema/base/ids.hpp"

#include <cuda.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>

namespace vgpu::interposer {

/// Copies from and to it are those of pageable memory. Kernels reach it where
/// it is a file that the program has mapped, as shared memory is: the host
/// window then shows the same file. Thread-safe.
class registered_memory {
public:
  struct range {
    std::uint64_t bytes = 0;
    unsigned flags = 0;
    std::uint64_t context = 0;
  };

  CUresult add(const void* at, std::uint64_t bytes, unsigned flags,
               std::uint64_t context);
  /// Waits for the work that may use it.
  CUresult remove(const void* at);
  std::optional<range> find(const void* at) const;

  /// Where kernels find it. CUDA_ERROR_INVALID_VALUE for what is not
  /// registered; CUDA_ERROR_NOT_SUPPORTED for what is not one mapping of a
  /// file, shared and writable, and where the worker has no access to it. From
  /// the first success on the session is not protected any more: what others
  /// do with the file is in no journal.
  CUresult device_pointer(context& in, const void* at, CUdeviceptr& out);

private:
  using range_map = std::map<std::uintptr_t, range>;

  /// Null where there is none. With the mutex held.
  const range_map::value_type* holding(const void* at) const;

  mutable std::shared_mutex mutex_;
  range_map ranges_;
  std::mutex showing_mutex_;
  /// Where in the host window a range's first page is, by its beginning.
  std::map<std::uintptr_t, device_address> shown_;
};
/// Gives the process's own. Precondition: the driver's state is made.
registered_memory& registered() noexcept;

} // namespace vgpu::interposer
