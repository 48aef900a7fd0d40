// Optional interface of a device: arrays, textures and surfaces.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/base/texture_description.hpp"

#include <cstdint>

namespace vgpu::device {

/// A device with arrays and textures implements this interface. As with
/// `device`, one thread calls it. No call waits for the device.
class texture_unit {
public:
  virtual ~texture_unit() = default;

  /// Tells whether the elements of arrays lie in the window's memory, in the
  /// layout of layout_of(). If so, the caller maps an array's range before it
  /// creates the array, and unmaps the range after it destroyed the array.
  virtual bool arrays_in_memory() const noexcept = 0;

  /// Creates an array. Copies to and from it name its elements by addresses
  /// from `at` on, in the layout of layout_of(), whether or not memory is
  /// mapped there.
  virtual status create_array(array_id id, const array_shape& shape,
                              device_address at) = 0;
  /// Destroys an array. Work enqueued before still runs.
  virtual status destroy_array(array_id id) = 0;

  /// Creates a texture or surface object and returns the value by which kernels
  /// know it.
  virtual result<std::uint64_t> create_texture(texture_id id,
                                               const texture_spec& what) = 0;
  /// Gives an object the value by which the program already knows it. Returns a
  /// fault where this device's kernels cannot find the object by that value.
  virtual status name_texture(texture_id id, std::uint64_t value) = 0;
  /// Destroys a texture or surface object. Work enqueued before still runs.
  virtual status destroy_texture(texture_id id) = 0;
};

} // namespace vgpu::device
