// Tensor maps (CUDA driver API, "Tensor Map Object Management"): a program's
// description of a tensor in global memory, and the bytes that a driver makes
// of it.
#pragma once

#include "schema/base/ids.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>

namespace vgpu {

/// Holds the bytes of a CUtensorMap, whose format only the driver knows.
using tensor_map = std::array<std::byte, 128>;

/// Names the calls that make a tensor map.
enum class tensor_map_form : std::uint32_t {
  tiled,
  im2col,
  im2col_wide,
  /// Copies another map and changes its address.
  moved,
};

/// Describes the arguments of such a call. Fields that its form and rank do not
/// use are zero, so that equal calls compare equal. The enumerations are those
/// of cuda.h, as the program passed them; the driver checks them.
struct tensor_map_spec {
  static constexpr std::size_t most_dimensions = 5;
  static constexpr std::size_t map_words = sizeof(tensor_map) / 8;

  device_address address = 0;
  /// Counts elements.
  std::array<std::uint64_t, most_dimensions> sizes{};
  /// Counts bytes.
  std::array<std::uint64_t, most_dimensions - 1> strides{};
  /// Is the other map of the form `moved`.
  std::array<std::uint64_t, map_words> from{};
  /// Is a tensor_map_form.
  std::uint32_t form = 0;
  std::uint32_t type = 0;
  std::uint32_t rank = 0;
  /// Belongs to the form `tiled`.
  std::array<std::uint32_t, most_dimensions> box{};
  /// Belongs to the form `im2col`.
  std::array<std::int32_t, most_dimensions - 2> lower{};
  /// Belongs to the form `im2col`.
  std::array<std::int32_t, most_dimensions - 2> upper{};
  /// Belongs to the form `im2col`.
  std::uint32_t channels = 0;
  /// Belongs to the form `im2col`.
  std::uint32_t pixels = 0;
  std::array<std::uint32_t, most_dimensions> steps{};
  std::uint32_t interleave = 0;
  /// Belongs to the form `im2col_wide`.
  std::uint32_t mode = 0;
  std::uint32_t swizzle = 0;
  std::uint32_t promotion = 0;
  std::uint32_t fill = 0;

  static constexpr auto fields(auto& x) {
    return std::tie(x.address, x.sizes, x.strides, x.from, x.form, x.type,
                    x.rank, x.box, x.lower, x.upper, x.channels, x.pixels,
                    x.steps, x.interleave, x.mode, x.swizzle, x.promotion,
                    x.fill);
  }

  /// Returns whether a driver may get it: no array is read beyond its end.
  bool is_sound() const noexcept {
    return form <= static_cast<std::uint32_t>(tensor_map_form::moved) &&
           rank <= most_dimensions;
  }

  friend bool operator==(const tensor_map_spec&,
                         const tensor_map_spec&) = default;
};

} // namespace vgpu
