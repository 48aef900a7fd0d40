// Bounds-checked reads from bytes that may be hostile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace vgpu::device {

/// Returns the `T`, a trivially copyable type, whose bytes begin at offset
/// `at`, or nothing where they reach past the end. The bytes need not be
/// aligned.
template <class T>
std::optional<T> read(std::span<const std::byte> from, std::uint64_t at) {
  if (at > from.size() || from.size() - at < sizeof(T))
    return std::nullopt;
  auto out = T{};
  std::memcpy(&out, from.data() + at, sizeof(T));
  return out;
}

} // namespace vgpu::device
