#include "devices/nvidia/staging.hpp"

#include "schema/own_addresses.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>

namespace vgpu::device::nvidia {

namespace {

/// Registering costs more than what is registered.
constexpr std::size_t registered_at_once = std::size_t{4} << 20;

} // namespace

staging::staging(driver_ptr api, std::size_t usual)
    : api_(std::move(api)), usual_(usual) {
  for (auto& x : pools_)
    x = std::make_shared<pool>();
}

result<staging::buffer> staging::take(std::size_t bytes, bool beyond) {
  auto least = std::lower_bound(sizes.begin(), sizes.end() - 1, bytes);
  auto size = *least;
  auto from = pools_[static_cast<std::size_t>(least - sizes.begin())];
  std::unique_lock guard{from->mutex};
  if (from->free.empty()) {
    if (from->made * size >= usual_ && !beyond)
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

bool staging::holds(std::span<const std::byte> bytes) const {
  auto next = pinned_.upper_bound(bytes.data());
  return next != pinned_.begin() &&
         bytes.data() + bytes.size() <= std::prev(next)->second;
}

/// Stays until the process ends, as its context does.
status staging::grow(pool& which, std::size_t size) {
  auto bytes = std::max(size, registered_at_once);
  auto* at = ::mmap(own_address(bytes), bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (at == MAP_FAILED)
    return fault{CUDA_ERROR_OUT_OF_MEMORY, "no memory for copies' bytes"};
  if (auto code = api_->cuMemHostRegister(at, bytes, 0); code != CUDA_SUCCESS) {
    ::munmap(at, bytes);
    return api_->failed(code, "cannot pin memory for copies' bytes");
  }
  auto* begin = static_cast<std::byte*>(at);
  for (std::size_t offset = 0; offset < bytes; offset += size)
    which.free.push_back(begin + offset);
  which.made += bytes / size;
  pinned_[begin] = begin + bytes;
  return {};
}

} // namespace vgpu::device::nvidia
