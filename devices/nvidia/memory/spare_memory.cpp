#include "devices/nvidia/memory/spare_memory.hpp"

#include "schema/base/cuda_fault.hpp"
#include "schema/base/round_up.hpp"
#include "schema/log/session_area.hpp"

#include <algorithm>
#include <string>

namespace vgpu::device::nvidia {

namespace {

/// Limits the memory that is created at a time, so that other threads' calls of
/// the driver come between.
constexpr auto block_bytes = std::uint64_t{256} << 20;

} // namespace

spare_memory::spare_memory(driver_ptr api, CUdevice device)
    : api_(std::move(api)), device_(device) {
  properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties_.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device_}};
}

status spare_memory::reserve() {
  std::size_t all = 0;
  if (auto ok = api_->check(api_->cuDeviceTotalMem(&all, device_),
                            "cuDeviceTotalMem");
      !ok)
    return ok;
  auto bytes = round_up(std::uint64_t{all}, granule_bytes);
  CUdeviceptr at = 0;
  auto ok =
      api_->check(api_->cuMemAddressReserve(&at, bytes, granule_bytes, 0, 0),
                  "cuMemAddressReserve");
  if (!ok)
    return ok;
  base_ = at;
  reserved_ = bytes;
  return {};
}

status spare_memory::take(std::uint64_t bytes) {
  if (bytes > reserved_)
    return cuda_fault(CUDA_ERROR_OUT_OF_MEMORY,
                      std::to_string(bytes) +
                          " spare bytes are more than the device has");
  for (std::uint64_t from = 0; from < bytes; from += block_bytes)
    if (auto ok = add(base_ + from, std::min(block_bytes, bytes - from)); !ok) {
      give_back();
      return ok;
    }
  return {};
}

status spare_memory::add(device_address at, std::uint64_t bytes) {
  CUmemGenericAllocationHandle memory = 0;
  if (auto ok = api_->check(api_->cuMemCreate(&memory, bytes, &properties_, 0),
                            "cuMemCreate");
      !ok)
    return ok;
  auto ok = api_->check(api_->cuMemMap(at, bytes, 0, memory, 0), "cuMemMap");
  if (!ok) {
    (void)api_->cuMemRelease(memory);
    return ok;
  }
  blocks_.push_back({at, bytes, memory});
  CUmemAccessDesc access{properties_.location,
                         CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  return api_->check(api_->cuMemSetAccess(at, bytes, &access, 1),
                     "cuMemSetAccess");
}

void spare_memory::give_back() noexcept {
  for (auto& x : blocks_) {
    (void)api_->cuMemUnmap(x.at, x.bytes);
    (void)api_->cuMemRelease(x.memory);
  }
  blocks_.clear();
}

} // namespace vgpu::device::nvidia
