// The digest of what a call brings its program: kept in the log, and compared
// when a replay brings it again.
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace vgpu {

/// Of one row; the hashes of a call's rows are added up, in any order. A row of
/// up to 256 KiB counts whole. Of a longer one do its ends and 1 KiB of each
/// further 256 KiB: read whole, it would take several times as long to hash as
/// a GPU takes to bring it. A kernel whose results vary rarely varies in so few
/// places that all of them are missed.
inline std::uint64_t row_hash(std::span<const std::byte> bytes,
                              std::uint64_t row = 0) noexcept {
  constexpr std::size_t whole = 256 << 10;
  constexpr std::size_t sample = 1 << 10;
  if (bytes.size() <= whole)
    return XXH3_64bits_withSeed(bytes.data(), bytes.size(), row);
  auto hash = row + bytes.size();
  for (std::size_t at = 0; at + sample <= bytes.size(); at += whole)
    hash = XXH3_64bits_withSeed(bytes.data() + at, sample, hash);
  return XXH3_64bits_withSeed(bytes.data() + bytes.size() - sample, sample,
                              hash);
}

/// What fits a record's header. Never 0, which says "none": two different
/// results have the same digest once in four thousand million.
constexpr std::uint32_t fold_digest(std::uint64_t hash) noexcept {
  auto folded = static_cast<std::uint32_t>(hash ^ (hash >> 32));
  return folded != 0 ? folded : 1;
}

} // namespace vgpu
