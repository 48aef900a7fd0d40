#include "devices/cpu/memory/kept_granules.hpp"

#include "schema/base/cuda_fault.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace vgpu::device::cpu {

result<std::unique_ptr<contents_room>>
kept_granules::make(const change_tracker& of, granule_account& account,
                    std::uint64_t granules) {
  auto bytes = std::max<std::uint64_t>(granules, 1) * granule_bytes;
  if (auto ok = account.check_quota("room for copies", bytes); !ok)
    return ok.why();
  auto* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    return cuda_fault(CUDA_ERROR_OUT_OF_MEMORY,
                      std::string{"no room for copies of memory: "} +
                          std::strerror(errno));
  return std::unique_ptr<contents_room>{
      new kept_granules{of, account, mapping{at, bytes}}};
}

status kept_granules::keep(std::span<const device_address> granules) {
  if (granules.size() * granule_bytes > room_.size())
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "there is no room for so many copies of memory");
  auto room = std::span{room_.data(), room_.size()};
  for (std::size_t i = 0; i < granules.size(); ++i) {
    auto into = room.subspan(i * granule_bytes, granule_bytes);
    if (auto ok = of_.peek(into, granules[i]); !ok) {
      copies_.clear();
      return ok;
    }
    copies_.emplace(granules[i], into.data());
  }
  return {};
}

void kept_granules::peek(std::span<peeked> pieces) {
  for (auto& x : pieces) {
    auto offset = x.from % granule_bytes;
    auto at = copies_.find(x.from - offset);
    if (at == copies_.end() || x.into.size() > granule_bytes - offset) {
      x.outcome = cuda_fault(CUDA_ERROR_INVALID_VALUE,
                             "no copy of this memory was kept");
      continue;
    }
    std::memcpy(x.into.data(), at->second + offset, x.into.size());
    x.outcome = {};
  }
}

} // namespace vgpu::device::cpu
