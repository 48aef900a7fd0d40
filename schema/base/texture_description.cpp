#include "schema/base/texture_description.hpp"

#include <cuda.h>

#include <algorithm>
#include <bit>

namespace vgpu {

namespace {

/// Levels begin at multiples of this, which is the texture alignment.
constexpr std::uint64_t level_step = 512;

std::uint64_t at_level(std::uint64_t size, std::uint32_t level) noexcept {
  return std::max<std::uint64_t>(1, size >> level);
}

} // namespace

std::optional<channel> channel_of(std::uint32_t format) noexcept {
  switch (format) {
  case CU_AD_FORMAT_UNSIGNED_INT8:
    return channel::u8;
  case CU_AD_FORMAT_UNSIGNED_INT16:
    return channel::u16;
  case CU_AD_FORMAT_UNSIGNED_INT32:
    return channel::u32;
  case CU_AD_FORMAT_SIGNED_INT8:
    return channel::s8;
  case CU_AD_FORMAT_SIGNED_INT16:
    return channel::s16;
  case CU_AD_FORMAT_SIGNED_INT32:
    return channel::s32;
  case CU_AD_FORMAT_HALF:
    return channel::f16;
  case CU_AD_FORMAT_FLOAT:
    return channel::f32;
  default:
    return std::nullopt;
  }
}

std::uint32_t bytes_of(channel x) noexcept {
  switch (x) {
  case channel::u8:
  case channel::s8:
    return 1;
  case channel::u16:
  case channel::s16:
  case channel::f16:
    return 2;
  default:
    return 4;
  }
}

std::uint32_t element_bytes(std::uint32_t format,
                            std::uint32_t channels) noexcept {
  auto one = channel_of(format);
  if (!one || (channels != 1 && channels != 2 && channels != 4))
    return 0;
  return bytes_of(*one) * channels;
}

std::optional<array_layout> layout_of(const array_shape& shape) {
  constexpr auto most = std::uint64_t{1} << 32;
  array_layout out;
  out.element = element_bytes(shape.format, shape.channels);
  if (out.element == 0 || shape.width == 0 || shape.width > most ||
      shape.height > most || shape.depth > most || shape.levels > 32)
    return std::nullopt;
  for (std::uint32_t l = 0; l < std::max(1U, shape.levels); ++l) {
    array_level x;
    x.offset = (out.bytes + level_step - 1) / level_step * level_step;
    x.width = at_level(shape.width, l);
    x.rows = at_level(shape.height, l);
    x.slices = shape.layered() || shape.cubemap()
                   ? std::max<std::uint64_t>(1, shape.depth)
                   : at_level(shape.depth, l);
    x.row_bytes = x.width * out.element;
    std::uint64_t slice = 0;
    std::uint64_t all = 0;
    if (__builtin_mul_overflow(x.row_bytes, x.rows, &slice) ||
        __builtin_mul_overflow(slice, x.slices, &all) || all > window_bytes)
      return std::nullopt;
    out.bytes = x.offset + all;
    out.levels.push_back(x);
  }
  if (out.bytes > window_bytes)
    return std::nullopt;
  return out;
}

std::uint32_t most_levels(const array_shape& shape) noexcept {
  auto flat = shape.layered() || shape.cubemap();
  auto longest = std::max(
      {shape.width, shape.height, flat ? std::uint64_t{1} : shape.depth});
  return static_cast<std::uint32_t>(std::bit_width(longest));
}

std::optional<element_format> format_of_view(std::uint32_t view) noexcept {
  // The formats come in threes, of 1, 2 and 4 channels (cuda.h,
  // CUresourceViewFormat).
  static constexpr std::uint32_t formats[] = {
      CU_AD_FORMAT_UNSIGNED_INT8,  CU_AD_FORMAT_SIGNED_INT8,
      CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_SIGNED_INT16,
      CU_AD_FORMAT_UNSIGNED_INT32, CU_AD_FORMAT_SIGNED_INT32,
      CU_AD_FORMAT_HALF,           CU_AD_FORMAT_FLOAT};
  if (view == 0 || (view - 1) / 3 >= std::size(formats))
    return std::nullopt;
  return element_format{formats[(view - 1) / 3], 1U << (view - 1) % 3};
}

} // namespace vgpu
