// The digest of the bytes that a call returns to its program. It is kept in the
// log, and a replay compares it with its own.
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace vgpu {

/// Returns the hash of one row; a call adds up the hashes of its rows, in any
/// order. A row of up to 16 KiB is hashed whole; of a longer one, its end and
/// 32 pieces spread evenly over it. The program waits during the hashing:
/// reading a long row whole would take several times as long as a GPU takes to
/// copy it. A kernel whose results vary rarely varies in so few places that all
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

/// Folds a hash to fit a record's header. It is never 0, which means "none".
/// Two different results have the same digest once in four thousand million.
constexpr std::uint32_t fold_digest(std::uint64_t hash) noexcept {
  auto folded = static_cast<std::uint32_t>(hash ^ (hash >> 32));
  return folded != 0 ? folded : 1;
}

} // namespace vgpu
