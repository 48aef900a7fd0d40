// The digest of what a call brings its program: kept in the log, and compared
// when a replay brings it again.
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace vgpu {

/// Of one row; the hashes of a call's rows are added up, in any order. A row of
/// up to 16 KiB counts whole; of a longer one do its end and 32 pieces that are
/// spread evenly over it. Hashing stands between a result and its program: read
/// whole, a long one would take several times as long as a GPU takes to bring
/// it. A kernel whose results vary rarely varies in so few places that all
/// pieces miss them.
inline std::uint64_t row_hash(std::span<const std::byte> bytes,
                              std::uint64_t row = 0) noexcept {
  constexpr std::size_t whole = 16 << 10;
  constexpr std::size_t pieces = 32;
  constexpr std::size_t piece = whole / pieces;
  if (bytes.size() <= whole)
    return XXH3_64bits_withSeed(bytes.data(), bytes.size(), row);
  auto hash = row + bytes.size();
  for (std::size_t i = 0; i < pieces; ++i)
    hash = XXH3_64bits_withSeed(bytes.data() + bytes.size() / pieces * i, piece,
                                hash);
  return XXH3_64bits_withSeed(bytes.data() + bytes.size() - piece, piece, hash);
}

/// What fits a record's header. Never 0, which says "none": two different
/// results have the same digest once in four thousand million.
constexpr std::uint32_t fold_digest(std::uint64_t hash) noexcept {
  auto folded = static_cast<std::uint32_t>(hash ^ (hash >> 32));
  return folded != 0 ? folded : 1;
}

} // namespace vgpu
