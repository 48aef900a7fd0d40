#include "interposer/device_resource.hpp"

namespace vgpu::interposer {

CUresult whole_resource(const device_facts& device, CUdevResourceType type,
                        CUdevResource* out) noexcept {
  if (out == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_DEV_RESOURCE_TYPE_SM)
    return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  auto major = device.value_of(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  *out = CUdevResource{};
  out->type = type;
  out->sm.smCount = static_cast<unsigned>(
      device.value_of(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  // As cuDevSmResourceSplitByCount describes them, by generation.
  out->sm.minSmPartitionSize = major >= 9 ? 8 : major == 8 ? 4 : 2;
  out->sm.smCoscheduledAlignment = major >= 9 ? 8 : 2;
  return CUDA_SUCCESS;
}

} // namespace vgpu::interposer
