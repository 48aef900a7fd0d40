// What arrays, textures and surfaces are made of: values that program, worker
// and devices agree on.
#pragma once

#include "schema/base/ids.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

namespace vgpu {

/// A CUDA array or mipmapped array.
using array_id = id<struct array_tag>;
/// A texture or surface object.
using texture_id = id<struct texture_tag>;

/// A CUDA array's shape, as CUDA_ARRAY3D_DESCRIPTOR gives it, or a mipmapped
/// array's.
struct array_shape {
  std::uint64_t width = 0;  ///< elements
  std::uint64_t height = 0; ///< 0 where there is one row only
  std::uint64_t depth = 0;  ///< slices or layers; 0 where there is one only
  std::uint32_t format = 0; ///< CUarray_format
  std::uint32_t channels = 0;
  std::uint32_t flags = 0;  ///< CUDA_ARRAY3D_*
  std::uint32_t levels = 0; ///< of a mipmapped array; 0: a plain one

  bool layered() const noexcept { return (flags & 1) != 0; }
  bool cubemap() const noexcept { return (flags & 4) != 0; }

  static constexpr auto fields(auto& x) {
    return std::tie(x.width, x.height, x.depth, x.format, x.channels, x.flags,
                    x.levels);
  }
};

/// What one channel of an element is.
enum class channel : std::uint8_t { u8, u16, u32, s8, s16, s32, f16, f32 };

/// Nothing for formats with planes, blocks or packed channels.
std::optional<channel> channel_of(std::uint32_t format) noexcept;
std::uint32_t bytes_of(channel x) noexcept;
/// Of an element; 0 where channel_of() gives nothing, or there are not 1, 2 or
/// 4 channels.
std::uint32_t element_bytes(std::uint32_t format,
                            std::uint32_t channels) noexcept;

/// One level of an array, in a layout without gaps between rows and slices.
struct array_level {
  std::uint64_t offset = 0; ///< bytes from the array's beginning
  std::uint64_t width = 1;  ///< elements
  std::uint64_t rows = 1;
  std::uint64_t slices = 1;
  std::uint64_t row_bytes = 0;

  std::uint64_t slice_bytes() const noexcept { return row_bytes * rows; }
  std::uint64_t bytes() const noexcept { return slice_bytes() * slices; }
};

/// Where an array's elements lie as everybody but a real GPU sees them: copies
/// name them by such addresses, whatever the device does.
struct array_layout {
  std::uint32_t element = 0; ///< bytes
  std::uint64_t bytes = 0;
  std::vector<array_level> levels; ///< at least one
};

/// Nothing where the shape makes no sense, or is larger than all addresses.
std::optional<array_layout> layout_of(const array_shape& shape);

/// The most levels that an array of this shape can have.
std::uint32_t most_levels(const array_shape& shape) noexcept;

/// How texture and surface objects name what they show, and how it is sampled
/// (CUDA_RESOURCE_DESC, CUDA_TEXTURE_DESC, CUDA_RESOURCE_VIEW_DESC). Floats as
/// their bits.
struct texture_spec {
  std::uint32_t surface = 0;  ///< 1: a surface object
  std::uint32_t resource = 0; ///< CUresourcetype
  std::uint64_t array = 0;    ///< array_id, for both kinds of arrays
  std::uint32_t level = 0;    ///< where an array is a mipmapped one's level
  // Linear memory, with rows (pitch2D) or without.
  device_address address = 0;
  std::uint32_t format = 0;
  std::uint32_t channels = 0;
  std::uint64_t width = 0, height = 0, pitch = 0;
  std::uint64_t bytes = 0;

  std::uint32_t address_x = 0, address_y = 0, address_z = 0;
  std::uint32_t filter = 0;
  std::uint32_t flags = 0; ///< CU_TRSF_*
  std::uint32_t anisotropy = 0;
  std::uint32_t mip_filter = 0;
  std::uint32_t bias = 0, least_level = 0, most_level = 0;
  std::uint32_t border_r = 0, border_g = 0, border_b = 0, border_a = 0;

  std::uint32_t view = 0; ///< 1: the following hold
  std::uint32_t view_format = 0;
  std::uint64_t view_width = 0, view_height = 0, view_depth = 0;
  std::uint32_t first_level = 0, last_level = 0;
  std::uint32_t first_layer = 0, last_layer = 0;

  static constexpr auto fields(auto& x) {
    return std::tie(
        x.surface, x.resource, x.array, x.level, x.address, x.format,
        x.channels, x.width, x.height, x.pitch, x.bytes, x.address_x,
        x.address_y, x.address_z, x.filter, x.flags, x.anisotropy, x.mip_filter,
        x.bias, x.least_level, x.most_level, x.border_r, x.border_g, x.border_b,
        x.border_a, x.view, x.view_format, x.view_width, x.view_height,
        x.view_depth, x.first_level, x.last_level, x.first_layer, x.last_layer);
  }
};

/// A view's format (CUresourceViewFormat) as a format and channels of arrays;
/// nothing for those of blocks.
struct element_format {
  std::uint32_t format = 0;
  std::uint32_t channels = 0;
};
std::optional<element_format> format_of_view(std::uint32_t view) noexcept;

} // namespace vgpu
