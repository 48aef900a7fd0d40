// Optional interface of a device: conditions of graphs, which kernels set with
// cudaGraphSetConditional.
#pragma once

#include "schema/base/condition_handles.hpp"
#include "schema/base/fault.hpp"
#include "schema/base/physical_memory.hpp"

namespace vgpu::device {

/// A device whose kernels can set conditions implements this interface. As with
/// `device`, one thread calls it.
class condition_unit {
public:
  virtual ~condition_unit() = default;

  /// Makes the physical memory `memory`, of condition_bytes bytes and mapped at
  /// `address`, the place of the session's conditions: kernels set its words
  /// through the handles that belong to `place`
  /// (schema/base/condition_handles.hpp). A repeated call with the same
  /// arguments changes nothing. Precondition: is_condition_place(place).
  /// Returns CUDA_ERROR_NOT_SUPPORTED where this device has no conditions, or
  /// cannot have them at that place.
  virtual status set_conditions_in(memory_id memory, device_address address,
                                   device_address place) = 0;
};

} // namespace vgpu::device
