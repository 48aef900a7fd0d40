#include "schema/base/own_addresses.hpp"

#include "schema/base/ids.hpp"
#include "schema/base/round_up.hpp"

#include <atomic>
#include <cstdint>

namespace vgpu {

namespace {

/// These addresses lie below the host window, where no other window lies.
constexpr std::uint64_t own_bytes = 4 * window_bytes;
constexpr std::uint64_t own_begin = host_window - own_bytes;

} // namespace

void* own_address(std::size_t bytes) noexcept {
  static std::atomic<std::uint64_t> used{0};
  if (bytes > own_bytes / 2)
    return nullptr;
  auto offset = used.fetch_add(round_up(bytes, granule_bytes));
  return offset < own_bytes / 2 ? reinterpret_cast<void*>(own_begin + offset)
                                : nullptr;
}

} // namespace vgpu
