#include "devices/cpu/memory/adopted_files.hpp"

#include "schema/base/cuda_fault.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace vgpu::device::cpu {

status adopted_files::map(device_address address, std::uint64_t bytes, int file,
                          std::uint64_t offset) {
  auto got = mmap(
      reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE,
      MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file, static_cast<off_t>(offset));
  if (got == MAP_FAILED)
    return cuda_fault(CUDA_ERROR_OUT_OF_MEMORY,
                      std::string{"window: cannot map the file: "} +
                          std::strerror(errno));
  for (auto g = address; g != address + bytes; g += granule_bytes)
    granules_.insert(g);
  return {};
}

std::vector<device_address> adopted_files::take(device_address address,
                                                std::uint64_t bytes) {
  auto first = granules_.lower_bound(address);
  auto end = granules_.lower_bound(address + bytes);
  std::vector<device_address> out{first, end};
  granules_.erase(first, end);
  return out;
}

void adopted_files::empty(
    const std::vector<device_address>& granules) noexcept {
  // Only writable memory can be punched out of a file. Where that fails, the
  // memory is freed with the rest of the file.
  for (auto g : granules) {
    auto* at = reinterpret_cast<void*>(g);
    if (mprotect(at, granule_bytes, PROT_READ | PROT_WRITE) == 0)
      (void)madvise(at, granule_bytes, MADV_REMOVE);
  }
}

} // namespace vgpu::device::cpu
