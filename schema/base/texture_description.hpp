// Arrays, textures and surfaces as values that program, worker and devices
// share.
#pragma once

#include "schema/base/ids.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

namespace vgpu {

/// Names a CUDA array or a mipmapped array.
using array_id = id<struct array_tag>;
/// Names a texture or surface object.
using texture_id = id<struct texture_tag>;

/// Describes the shape of a CUDA array, as in CUDA_ARRAY3D_DESCRIPTOR, or of a
/// mipmapped array.
struct array_shape {
  /// Counts elements.
  std::uint64_t width = 0;
  /// Is 0 where there is only one row.
  std::uint64_t height = 0;
  /// Counts slices or layers. It is 0 where there is only one.
  std::uint64_t depth = 0;
  /// Is a CUarray_format.
  std::uint32_t format = 0;
  std::uint32_t channels = 0;
  /// Holds bits of CUDA_ARRAY3D_*.
  std::uint32_t flags = 0;
  /// Counts the levels of a mipmapped array. It is 0 for a plain array.
  std::uint32_t levels = 0;

  bool layered() const noexcept { return (flags & 1) != 0; }
  bool cubemap() const noexcept { return (flags & 4) != 0; }

  static constexpr auto fields(auto& x) {
    return std::tie(x.width, x.height, x.depth, x.format, x.channels, x.flags,
                    x.levels);
  }
};

/// Names the type of one channel of an element.
enum class channel : std::uint8_t { u8, u16, u32, s8, s16, s32, f16, f32 };

/// Returns the type of a format's channels, or nothing for formats with planes,
/// blocks or packed channels.
std::optional<channel> channel_of(std::uint32_t format) noexcept;
/// Returns the size of a channel.
std::uint32_t bytes_of(channel x) noexcept;
/// Returns the size of an element, or 0 where channel_of() returns nothing or
/// the channels are not 1, 2 or 4.
std::uint32_t element_bytes(std::uint32_t format,
                            std::uint32_t channels) noexcept;

/// Describes one level of an array, in a layout without gaps between rows and
/// slices.
struct array_level {
  /// Counts bytes from the array's beginning.
  std::uint64_t offset = 0;
  /// Counts elements.
  std::uint64_t width = 1;
  std::uint64_t rows = 1;
  std::uint64_t slices = 1;
  std::uint64_t row_bytes = 0;

  std::uint64_t slice_bytes() const noexcept { return row_bytes * rows; }
  std::uint64_t bytes() const noexcept { return slice_bytes() * slices; }
};

/// Describes the layout of an array's elements, as everything except a real GPU
/// sees it. Copies use addresses in this layout, however the device stores the
/// array.
struct array_layout {
  /// Is the size of an element in bytes.
  std::uint32_t element = 0;
  std::uint64_t bytes = 0;
  /// Holds at least one level.
  std::vector<array_level> levels;
};

/// Returns the layout, or nothing where the shape is invalid or exceeds all
/// addresses.
std::optional<array_layout> layout_of(const array_shape& shape);

/// Returns the largest number of levels for an array of this shape.
std::uint32_t most_levels(const array_shape& shape) noexcept;

/// Describes the resource of a texture or surface object, and how it is sampled
/// (CUDA_RESOURCE_DESC, CUDA_TEXTURE_DESC, CUDA_RESOURCE_VIEW_DESC). Floats are
/// stored as their bits.
struct texture_spec {
  /// Is 1 for a surface object.
  std::uint32_t surface = 0;
  /// Is a CUresourcetype.
  std::uint32_t resource = 0;
  /// Is the array_id, for both kinds of arrays.
  std::uint64_t array = 0;
  /// Is the level, if the array is one of a mipmapped array.
  std::uint32_t level = 0;
  // These describe linear memory, with rows (pitch2D) or without.
  device_address address = 0;
  std::uint32_t format = 0;
  std::uint32_t channels = 0;
  std::uint64_t width = 0, height = 0, pitch = 0;
  std::uint64_t bytes = 0;

  std::uint32_t address_x = 0, address_y = 0, address_z = 0;
  std::uint32_t filter = 0;
  /// Holds bits of CU_TRSF_*.
  std::uint32_t flags = 0;
  std::uint32_t anisotropy = 0;
  std::uint32_t mip_filter = 0;
  std::uint32_t bias = 0, least_level = 0, most_level = 0;
  std::uint32_t border_r = 0, border_g = 0, border_b = 0, border_a = 0;

  /// Is 1 where the view below is in use.
  std::uint32_t view = 0;
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

/// Describes the format of a view's elements, as a format and channels of
/// arrays.
struct element_format {
  std::uint32_t format = 0;
  std::uint32_t channels = 0;
};
/// Converts a CUresourceViewFormat. Returns nothing for formats of blocks.
std::optional<element_format> format_of_view(std::uint32_t view) noexcept;

} // namespace vgpu
