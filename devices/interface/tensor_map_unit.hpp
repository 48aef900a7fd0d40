// Optional interface of a device: tensor maps.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/base/tensor_map_descriptor.hpp"

namespace vgpu::device {

/// A device whose kernels copy by tensor maps implements this interface. As
/// with `device`, one thread calls it.
class tensor_map_unit {
public:
  virtual ~tensor_map_unit() = default;

  /// Returns the map of a tensor, or the driver's own error where it refuses
  /// one (CUDA driver API, "Tensor Map Object Management"). The device keeps
  /// nothing. Precondition: what.is_sound().
  virtual result<tensor_map> encode(const tensor_map_spec& what) = 0;
};

} // namespace vgpu::device
