#include "devices/cpu/memory/copy_boxes.hpp"

#include <algorithm>
#include <cstring>

namespace vgpu::device::cpu {

namespace {

template <class F>
void each_row(const extent& size, F f) {
  for (auto z = std::uint64_t{0}; z < size.depth; ++z)
    for (auto y = std::uint64_t{0}; y < size.height; ++y)
      f(y, z);
}

std::byte* row(const pitched& x, std::uint64_t y, std::uint64_t z) {
  return reinterpret_cast<std::byte*>(x.address + y * x.pitch + z * x.slice);
}

void fill_row(std::byte* to, std::uint64_t count, std::uint32_t value,
              std::uint32_t element) {
  if (element == 1) {
    std::memset(to, static_cast<int>(value & 255), count);
    return;
  }
  // Each copy doubles the part that is filled, so the copies soon become long.
  auto bytes = count * element;
  std::memcpy(to, &value, std::min<std::uint64_t>(bytes, element));
  for (auto have = std::uint64_t{element}; have < bytes; have *= 2)
    std::memcpy(to + have, to, std::min(have, bytes - have));
}

} // namespace

std::optional<std::uint64_t> span_of(const pitched& at, const extent& size) {
  if (size.width == 0 || size.height == 0 || size.depth == 0)
    return std::uint64_t{0};
  auto out = std::uint64_t{0};
  auto rows = std::uint64_t{0};
  auto slices = std::uint64_t{0};
  if (__builtin_mul_overflow(at.pitch, size.height - 1, &rows) ||
      __builtin_mul_overflow(at.slice, size.depth - 1, &slices) ||
      __builtin_add_overflow(rows, slices, &out) ||
      __builtin_add_overflow(out, size.width, &out))
    return std::nullopt;
  return out;
}

void copy_box(const pitched& to, const pitched& from, const extent& size) {
  each_row(size, [&](std::uint64_t y, std::uint64_t z) {
    std::memmove(row(to, y, z), row(from, y, z), size.width);
  });
}

void fill_box(const pitched& to, const extent& size, std::uint32_t value,
              std::uint32_t element_bytes) {
  each_row(size, [&](std::uint64_t y, std::uint64_t z) {
    fill_row(row(to, y, z), size.width, value, element_bytes);
  });
}

} // namespace vgpu::device::cpu
