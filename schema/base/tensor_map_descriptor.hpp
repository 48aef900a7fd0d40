// Tensor maps (CUDA driver API, "Tensor Map Object Management"): what a program
// says of a tensor in global memory, and the bytes that a driver makes of it.
#pragma once

#include "schema/base/ids.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>

namespace vgpu {

/// A CUtensorMap: the driver's alone to read.
using tensor_map = std::array<std::byte, 128>;

/// The calls that make one.
enum class tensor_map_form : std::uint32_t {
  tiled,
  im2col,
  im2col_wide,
  moved, ///< another map, at another address
};

/// The arguments of such a call. What its form and rank do not use is zero, so
/// that equal calls are equal. The enumerations are cuda.h's, as the program
/// gave them: the driver says which it knows.
struct tensor_map_spec {
  static constexpr std::size_t most_dimensions = 5;
  static constexpr std::size_t map_words = sizeof(tensor_map) / 8;

  device_address address = 0;
  std::array<std::uint64_t, most_dimensions> sizes{};       // elements
  std::array<std::uint64_t, most_dimensions - 1> strides{}; // bytes
  std::array<std::uint64_t, map_words> from{};              // moved
  std::uint32_t form = 0;                                   // a tensor_map_form
  std::uint32_t type = 0;
  std::uint32_t rank = 0;
  std::array<std::uint32_t, most_dimensions> box{};      // tiled
  std::array<std::int32_t, most_dimensions - 2> lower{}; // im2col
  std::array<std::int32_t, most_dimensions - 2> upper{}; // im2col
  std::uint32_t channels = 0;                            // im2col
  std::uint32_t pixels = 0;                              // im2col
  std::array<std::uint32_t, most_dimensions> steps{};
  std::uint32_t interleave = 0;
  std::uint32_t mode = 0; // im2col_wide
  std::uint32_t swizzle = 0;
  std::uint32_t promotion = 0;
  std::uint32_t fill = 0;

  static constexpr auto fields(auto& x) {
    return std::tie(x.address, x.sizes, x.strides, x.from, x.form, x.type,
                    x.rank, x.box, x.lower, x.upper, x.channels, x.pixels,
                    x.steps, x.interleave, x.mode, x.swizzle, x.promotion,
                    x.fill);
  }

  /// Whether a driver may be handed it: no array is read beyond its end.
  bool is_sound() const noexcept {
    return form <= static_cast<std::uint32_t>(tensor_map_form::moved) &&
           rank <= most_dimensions;
  }

  friend bool operator==(const tensor_map_spec&,
                         const tensor_map_spec&) = default;
};

} // namespace vgpu
