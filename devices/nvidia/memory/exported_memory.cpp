#include "devices/nvidia/memory/exported_memory.hpp"

#include "schema/base/cuda_fault.hpp"

namespace vgpu::device::nvidia {

CUmemAllocationProp exportable_memory(const driver& api, CUdevice device) {
  CUmemAllocationProp out{};
  out.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  out.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  auto files = 0;
  if (api.cuDeviceGetAttribute(
          &files,
          CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
          device) == CUDA_SUCCESS &&
      files != 0)
    out.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return out;
}

bool is_exportable(const CUmemAllocationProp& x) noexcept {
  return x.requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;
}

result<shared_descriptor> export_memory(const driver& api,
                                        CUmemGenericAllocationHandle memory) {
  auto file = -1;
  if (auto code = api.cuMemExportToShareableHandle(
          &file, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
      code != CUDA_SUCCESS)
    return api.failed(code, "cannot share device memory");
  return shared_descriptor{std::make_shared<unique_fd>(file)};
}

fault not_exportable() {
  return cuda_fault(
      CUDA_ERROR_NOT_SUPPORTED,
      "this device's memory cannot be shared by file descriptors");
}

} // namespace vgpu::device::nvidia
