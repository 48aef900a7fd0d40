// Words that kernels set by cudaGraphSetConditional: what a device can do
// besides device.hpp.
#pragma once

#include "schema/base/condition_handles.hpp"
#include "schema/base/fault.hpp"
#include "schema/base/physical_memory.hpp"

namespace vgpu::device {

/// A device whose kernels can set conditions is one of these too. Called as the
/// device is: by one thread.
class condition_unit {
public:
  virtual ~condition_unit() = default;

  /// Physical memory of condition_bytes that is mapped at `address`: from now
  /// on kernels set its words, by the handles that they have at `place`
  /// (schema/base/condition_handles.hpp). The same again changes nothing.
  /// CUDA_ERROR_NOT_SUPPORTED where this is not to be had on this device, or
  /// not there. Precondition: is_condition_place(place).
  virtual status set_conditions_in(memory_id memory, device_address address,
                                   device_address place) = 0;
};

} // namespace vgpu::device
