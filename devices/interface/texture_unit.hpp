// Arrays, textures and surfaces: what a device can do besides device.hpp.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/base/texture_description.hpp"

#include <cstdint>

namespace vgpu::device {

/// A device that has arrays and textures is one of these too. Called as the
/// device is: by one thread, and without waiting for the device.
class texture_unit {
public:
  virtual ~texture_unit() = default;

  /// Whether an array's elements lie in the window's memory, in the layout of
  /// layout_of(): then its range is mapped before it is created, and unmapped
  /// after it was destroyed.
  virtual bool arrays_in_memory() const noexcept = 0;

  /// Makes an array. Copies to and from it name its elements by addresses from
  /// `at` on, in the layout of layout_of(), mapped or not.
  virtual status create_array(array_id id, const array_shape& shape,
                              device_address at) = 0;
  /// Work enqueued before still runs.
  virtual status destroy_array(array_id id) = 0;

  /// Makes a texture or surface object and tells the value that kernels know
  /// it by.
  virtual result<std::uint64_t> create_texture(texture_id id,
                                               const texture_spec& what) = 0;
  /// The program knows the object by this value already. A fault where this
  /// device's kernels cannot find it by that.
  virtual status name_texture(texture_id id, std::uint64_t value) = 0;
  /// Work enqueued before still runs.
  virtual status destroy_texture(texture_id id) = 0;
};

} // namespace vgpu::device
