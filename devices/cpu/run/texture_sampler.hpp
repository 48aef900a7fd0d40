// Texture and surface objects of the cpu device, and how they are sampled (CUDA
// C++ Programming Guide, "Texture Fetching").
#pragma once

#include "devices/cpu/lower/texture_op.hpp"
#include "devices/cpu/memory/memory_map.hpp"
#include "devices/cpu/run/block.hpp"
#include "schema/base/texture_description.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace vgpu::device::cpu {

/// Describes one level of an object's contents: elements in rows, and rows in
/// slices. The slices are layers or faces where the object has such.
struct texture_level {
  device_address at = 0;
  std::int64_t width = 1, height = 1, depth = 1; // elements
  std::uint64_t pitch = 0, slice = 0;            // bytes
};

/// Describes a texture or surface object. It is immutable, and all threads that
/// run kernels read it.
struct texture {
  enum class border : std::uint8_t { wrap, clamp, mirror, constant };

  bool surface = false;
  bool linear_memory = false; // a row of elements without neighbours
  bool layered = false;
  bool cubemap = false;
  channel of = channel::f32;
  unsigned channels = 1;
  unsigned element = 4; // bytes
  std::array<border, 3> outside{};
  bool filtered = false;   // interpolates between elements
  bool normalized = false; // coordinates from 0 to 1
  bool real = true;        // returns floats, otherwise integers
  bool srgb = false;
  bool seamless = false;
  bool mip_filtered = false;
  float bias = 0, least_level = 0, most_level = 0;
  std::array<float, 4> edge{}; // border colour
  std::vector<texture_level> levels;
};

/// Returns the object that a description stands for. `array` and `at` are the
/// shape and place of the array that it names, if any. Returns
/// CUDA_ERROR_INVALID_VALUE for a description that contradicts itself.
result<texture> make_texture(const texture_spec& what, const array_shape* array,
                             device_address at);

/// Describes one lane's query.
struct texture_query {
  texture_op how;
  std::array<float, 3> at{};
  std::array<std::int32_t, 3> element{}; // integer coordinates
  std::int64_t layer = 0;
  float level = 0;
  std::array<float, 3> dx{}, dy{}; // how the coordinates change
};

/// Samples an object, and returns the four channels, floats as their bits.
/// Returns false where the object's memory is not mapped.
bool look_up(const memory_map& memory, const texture& x, const texture_query& q,
             std::uint32_t (&out)[4]);

/// Maps the values by which kernels know objects to the objects.
using texture_table =
    std::unordered_map<std::uint64_t, std::shared_ptr<const texture>>;

/// Holds a grid with the objects that existed when it was launched. Every grid
/// of this device is one.
struct textured_grid final : grid {
  std::shared_ptr<const texture_table> textures;
};

} // namespace vgpu::device::cpu
