#include "devices/cpu/run/block_limits.hpp"

#include "schema/base/round_up.hpp"

#include <algorithm>

namespace vgpu::device::cpu {

namespace {

constexpr std::uint64_t max_threads_per_block = 1024;
constexpr std::uint64_t max_warps = 64;
constexpr std::uint64_t max_blocks = 32;
constexpr std::uint64_t registers = 65536;
constexpr std::uint64_t register_unit = 256; // per warp
constexpr std::uint64_t shared = 233472;
constexpr std::uint64_t shared_unit = 128;
constexpr std::uint64_t shared_reserved = 1024; // per block

} // namespace

int blocks_per_multiprocessor(const block_needs& x) {
  if (x.threads == 0 || x.threads > max_threads_per_block)
    return 0;
  auto warps = (std::uint64_t{x.threads} + 31) / 32;
  auto by_warps = max_warps / warps;
  auto of_warp =
      round_up(std::max<std::uint64_t>(x.registers, 1) * 32, register_unit);
  // The warps are dealt out to four partitions.
  auto by_registers = registers / 4 / of_warp * 4 / warps;
  auto of_block = round_up(x.shared + shared_reserved, shared_unit);
  auto by_shared = shared / of_block;
  return static_cast<int>(
      std::min({by_warps, by_registers, by_shared, max_blocks}));
}

} // namespace vgpu::device::cpu
