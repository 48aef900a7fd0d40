// The changes of memory of which two processes have copies.
#pragma once

#include "schema/base/ids.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace vgpu {

/// Describes a line of memory, and which of its bytes were written. The other
/// side may write the remaining bytes at the same time.
struct changed_line {
  static constexpr std::size_t bytes = 64;

  /// Is a multiple of `bytes`.
  device_address address = 0;
  /// Has bit i set where byte i was written.
  std::uint64_t changed = 0;
  std::array<std::byte, bytes> now{};
};
static_assert(sizeof(changed_line) == 80);

/// Compares memory, which others may write meanwhile, with its earlier contents
/// `before`, and updates these. Appends the lines that differ, or with `all`
/// every line. Both ranges consist of whole lines and begin at `address`.
inline void take_changes(std::span<const std::byte> memory,
                         std::span<std::byte> before, device_address address,
                         bool all, std::vector<changed_line>& out) {
  constexpr std::size_t at_once = 64 * changed_line::bytes;
  for (std::size_t at = 0; at < memory.size(); at += at_once) {
    auto part = std::min(at_once, memory.size() - at);
    if (!all && std::memcmp(&memory[at], &before[at], part) == 0)
      continue;
    for (auto i = at; i < at + part; i += changed_line::bytes) {
      changed_line x{.address = address + i};
      std::memcpy(x.now.data(), &memory[i], changed_line::bytes);
      for (std::size_t k = 0; k < changed_line::bytes; ++k)
        if (all || x.now[k] != before[i + k])
          x.changed |= std::uint64_t{1} << k;
      if (x.changed == 0)
        continue;
      std::memcpy(&before[i], x.now.data(), changed_line::bytes);
      out.push_back(x);
    }
  }
}

/// Calls `write` with the offset and the value of each byte that changed.
template <class Write>
void each_change(const changed_line& x, const Write& write) {
  for (std::size_t k = 0; k < changed_line::bytes; ++k)
    if ((x.changed >> k & 1) != 0)
      write(k, x.now[k]);
}

/// Reads the lines from bytes of another process, which need not be aligned. An
/// incomplete last line is dropped.
inline std::vector<changed_line> lines_of(std::span<const std::byte> bytes) {
  std::vector<changed_line> out(bytes.size() / sizeof(changed_line));
  if (!out.empty())
    std::memcpy(out.data(), bytes.data(), out.size() * sizeof(changed_line));
  return out;
}

} // namespace vgpu
