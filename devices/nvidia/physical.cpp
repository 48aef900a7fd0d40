#include "devices/nvidia/physical.hpp"

#include <string>

namespace vgpu::device::nvidia {

physical_memory::physical_memory(driver_ptr api, CUdevice device, window& into)
    : api_(std::move(api)), into_(into) {
  properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties_.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
}

status physical_memory::create(memory_id id, std::uint64_t bytes) {
  CUmemGenericAllocationHandle made = 0;
  auto code = api_->cuMemCreate(&made, bytes, &properties_, 0);
  if (code == CUDA_ERROR_OUT_OF_MEMORY && into_.spare())
    code = api_->cuMemCreate(&made, bytes, &properties_, 0);
  if (code != CUDA_SUCCESS)
    return api_->failed(code, "cannot create " + std::to_string(bytes) +
                                  " bytes of device memory");
  memories_.insert_or_assign(id, made);
  return {};
}

status physical_memory::destroy(memory_id id) {
  auto known = memories_.extract(id);
  if (known.empty())
    return fault{CUDA_ERROR_INVALID_VALUE, "physical memory " +
                                               std::to_string(id.value) +
                                               " does not exist"};
  return api_->check(api_->cuMemRelease(known.mapped()), "cuMemRelease");
}

status physical_memory::map(device_address address, std::uint64_t bytes,
                            memory_id id) {
  auto known = memories_.find(id);
  if (known == memories_.end() || !into_.holds(address))
    return fault{CUDA_ERROR_INVALID_VALUE,
                 "physical memory is mapped nowhere but in the window"};
  if (auto ok = into_.vacate(address, bytes); !ok)
    return ok;
  return api_->check(api_->cuMemMap(address, bytes, 0, known->second, 0),
                     "cuMemMap");
}

status physical_memory::unmap(device_address address, std::uint64_t bytes) {
  return api_->check(api_->cuMemUnmap(address, bytes), "cuMemUnmap");
}

status physical_memory::set_access(device_address address, std::uint64_t bytes,
                                   memory_access access) {
  return into_.set_access(address, bytes,
                          static_cast<CUmemAccess_flags>(access));
}

} // namespace vgpu::device::nvidia
