// The digest of what a call brings its program: kept in the log, and compared
// when a replay brings it again.
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace vgpu {

/// Of one row; the hashes of a call's rows are added up, in any order.
inline std::uint64_t row_hash(std::span<const std::byte> bytes,
                              std::uint64_t row = 0) noexcept {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), row);
}

/// What fits a record's header. Never 0, which says "none": two different
/// results have the same digest once in four thousand million.
constexpr std::uint32_t fold_digest(std::uint64_t hash) noexcept {
  auto folded = static_cast<std::uint32_t>(hash ^ (hash >> 32));
  return folded != 0 ? folded : 1;
}

} // namespace vgpu
