#include "actors/worker/session/host_memory.hpp"

#include "schema/base/cuda_fault.hpp"

#include <sys/mman.h>

namespace vgpu {

void host_memory::allow(std::uint64_t quota) {
  quota_ = quota;
  if (zero_copy_)
    zero_copy_->allow(quota);
}

status host_memory::make_shadow() {
  if (bytes_ != 0)
    return {};
  // Only a shared mapping can be mapped a second time, into a device's window.
  auto* at = ::mmap(
      reinterpret_cast<void*>(host_window), window_bytes,
      PROT_READ | PROT_WRITE,
      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (at == MAP_FAILED)
    return cuda_fault(
        CUDA_ERROR_OPERATING_SYSTEM,
        "the addresses of the host window are taken in this process");
  shadow_ = mapping{at, window_bytes};
  zero_copy_ = std::make_shared<zero_copy_shadow>(quota_);
  bytes_ = window_bytes;
  return {};
}

} // namespace vgpu
