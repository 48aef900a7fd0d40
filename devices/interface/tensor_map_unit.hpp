// Tensor maps: what a device can do besides device.hpp.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/base/tensor_map_descriptor.hpp"

namespace vgpu::device {

/// A device whose kernels copy by tensor maps is one of these too. Called as
/// the device is: by one thread.
class tensor_map_unit {
public:
  virtual ~tensor_map_unit() = default;

  /// The map of a tensor, or why there is none: the driver's own error.
  /// Nothing is made or kept on the device. Precondition: what.is_sound().
  virtual result<tensor_map> encode(const tensor_map_spec& what) = 0;
};

} // namespace vgpu::device
