// Reading from bytes that may be hostile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace vgpu::device {

/// A `T`, a trivial type, out of the bytes from `at` on, which need not be
/// aligned; nothing where they end before it does.
template <class T>
std::optional<T> read(std::span<const std::byte> from, std::uint64_t at) {
  if (at > from.size() || from.size() - at < sizeof(T))
    return std::nullopt;
  auto out = T{};
  std::memcpy(&out, from.data() + at, sizeof(T));
  return out;
}

} // namespace vgpu::device
