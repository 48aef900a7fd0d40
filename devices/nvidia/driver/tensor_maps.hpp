// Tensor maps, as the driver makes them.
#pragma once

#include "devices/nvidia/driver/driver.hpp"
#include "schema/base/tensor_map_descriptor.hpp"

namespace vgpu::device::nvidia {

/// What the driver makes of it, in the context that is current.
/// CUDA_ERROR_NOT_SUPPORTED where it is too old for this form.
result<tensor_map> encode_tensor_map(const driver& api,
                                     const tensor_map_spec& what);

} // namespace vgpu::device::nvidia
