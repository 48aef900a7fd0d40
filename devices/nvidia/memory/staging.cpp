#include "devices/nvidia/memory/staging.hpp"

#include "schema/base/cuda_fault.hpp"
#include "schema/base/own_addresses.hpp"

#include <sys/mman.h>

#include <algorithm>

namespace vgpu::device::nvidia {

staging::staging(driver_ptr api) : api_(std::move(api)) {
  for (auto& x : pools_)
    x = std::make_shared<pool>();
}

result<staging::buffer> staging::take(std::size_t bytes, bool beyond) {
  auto least = std::lower_bound(sizes.begin(), sizes.end() - 1, bytes);
  auto size = *least;
  auto from = pools_[static_cast<std::size_t>(least - sizes.begin())];
  std::unique_lock guard{from->mutex};
  if (from->free.empty()) {
    if (from->made * size >= usual_bytes && !beyond)
      return buffer{};
    if (auto ok = grow(*from, size); !ok)
      return ok.why();
  }
  auto* at = from->free.back();
  from->free.pop_back();
  return buffer{at, [from](std::byte* x) {
                  std::lock_guard back{from->mutex};
                  from->free.push_back(x);
                }};
}

/// Adds large_bytes to a pool at once, because registering has a high cost for
/// each call. The memory stays until the process ends, as its context does.
status staging::grow(pool& which, std::size_t size) {
  auto* at =
      ::mmap(own_address(large_bytes), large_bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (at == MAP_FAILED)
    return cuda_fault(CUDA_ERROR_OUT_OF_MEMORY,
                      "cannot allocate a staging buffer for copies");
  if (auto code = api_->cuMemHostRegister(at, large_bytes, 0);
      code != CUDA_SUCCESS) {
    ::munmap(at, large_bytes);
    return api_->failed(code, "cannot pin a staging buffer for copies");
  }
  for (std::size_t offset = 0; offset < large_bytes; offset += size)
    which.free.push_back(static_cast<std::byte*>(at) + offset);
  which.made += large_bytes / size;
  return {};
}

} // namespace vgpu::device::nvidia
