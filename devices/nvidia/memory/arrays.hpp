// The session's arrays, textures and surfaces on an NVIDIA GPU.
#pragma once

#include "devices/nvidia/driver/driver.hpp"
#include "schema/base/texture_description.hpp"

#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

namespace vgpu::device::nvidia {

/// Maps handles to the driver's arrays and objects, and addresses in the layout
/// of layout_of() to places in arrays. The driver's own layout is unknown, so
/// no memory is mapped at these addresses. The session's one thread, with the
/// context current, makes all calls.
class arrays {
public:
  explicit arrays(driver_ptr api) : api_(std::move(api)) {}

  /// Makes an array whose elements are named by addresses from `at` on.
  status create(array_id id, const array_shape& shape, device_address at);
  /// Forgets the array. The returned function destroys it; the caller calls
  /// that function when no work uses the array any more.
  result<std::function<void()>> take(array_id id);

  /// Tells whether the address belongs to an array.
  bool holds(device_address address) const noexcept;

  /// Describes a box of an array. Without an array it stands for bytes between
  /// two levels, which belong to none.
  struct part {
    CUarray in = nullptr;
    std::uint64_t x = 0, y = 0, z = 0; // x in bytes
    std::uint64_t width = 0, height = 1, depth = 1;

    std::uint64_t bytes() const noexcept { return width * height * depth; }
  };
  /// Returns the largest box with which this range of addresses begins, or
  /// CUDA_ERROR_INVALID_VALUE where the range leaves the array.
  result<part> first_part(device_address address, std::uint64_t bytes) const;
  /// Returns the same as first_part(), but at most the rest of one row.
  result<part> first_run(device_address address, std::uint64_t bytes) const;

  /// Implements texture_unit::create_texture().
  result<std::uint64_t> create_texture(texture_id id, const texture_spec& what);
  /// Implements texture_unit::name_texture(). Where the driver gave the object
  /// another value, makes further objects until one has `value`; returns a
  /// fault where none has.
  status name_texture(texture_id id, std::uint64_t value);
  /// Implements texture_unit::destroy_texture().
  status destroy_texture(texture_id id);

private:
  struct entry {
    array_id id;
    array_layout layout;
    CUarray plain = nullptr;
    CUmipmappedArray mipped = nullptr;
    std::vector<CUarray> levels;
  };
  struct object {
    texture_spec what;
    std::uint64_t value = 0;
  };

  const entry* find(array_id id) const;
  result<std::uint64_t> make(const texture_spec& what);
  void unmake(const texture_spec& what, std::uint64_t value);

  driver_ptr api_;
  std::map<device_address, entry> by_address_;
  std::unordered_map<texture_id, object> textures_;
};

} // namespace vgpu::device::nvidia
