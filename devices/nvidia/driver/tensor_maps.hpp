// Tensor maps, encoded by the driver.
#pragma once

#include "devices/nvidia/driver/driver.hpp"
#include "schema/base/tensor_map_descriptor.hpp"

namespace vgpu::device::nvidia {

/// Encodes a tensor map in the current context. Returns
/// CUDA_ERROR_NOT_SUPPORTED where the driver is too old for this form (CUDA
/// driver API, cuTensorMapEncodeTiled, cuTensorMapEncodeIm2col and
/// cuTensorMapEncodeIm2colWide).
result<tensor_map> encode_tensor_map(const driver& api,
                                     const tensor_map_spec& what);

} // namespace vgpu::device::nvidia
