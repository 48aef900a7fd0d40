#include "devices/nvidia/conditions.hpp"

#include <array>
#include <string>

namespace vgpu::device::nvidia {

namespace {

// What a driver gives a launch as the place of its graph's values: the two
// words that cudaGraphSetConditional reads.
const char* const look_ptx = R"(
.version 7.0
.target sm_70
.address_size 64

.visible .entry base_of_conditions(.param .u64 out)
{
  .reg .b32 %low, %high;
  .reg .b64 %out;
  ld.param.u64 %out, [out];
  cvta.to.global.u64 %out, %out;
  mov.b32 %low, %envreg8;
  mov.b32 %high, %envreg9;
  st.global.u32 [%out], %low;
  st.global.u32 [%out+4], %high;
  ret;
}
)";

fault not_so(const std::string& why) {
  return {CUDA_ERROR_NOT_SUPPORTED,
          "this driver's kernels set no conditions but in its own graphs: " +
              why};
}

} // namespace

conditions::conditions(driver_ptr api, CUdevice device,
                       physical_memory& memories)
    : api_(std::move(api)), device_(device), memories_(memories) {}

/// What cudaGraphSetConditional does was seen on compute capability 9.0 alone.
void conditions::open(const properties& of) {
  auto is = [&](CUdevice_attribute key, int value) {
    auto known = of.attributes.find(key);
    return known != of.attributes.end() && known->second == value;
  };
  if (!is(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9) ||
      !is(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0))
    return;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  if (api_->cuModuleLoadDataEx(&module, look_ptx, 0, nullptr, nullptr) ==
          CUDA_SUCCESS &&
      api_->cuModuleEnumerateFunctions(&kernel, 1, module) == CUDA_SUCCESS &&
      api_->cuFuncLoad(kernel) == CUDA_SUCCESS)
    kernel_ = kernel;
}

status conditions::set(memory_id memory, device_address place) {
  if (place_ == place && memory_ == memory)
    return {};
  if (kernel_ == nullptr)
    return not_so("of this device nothing is known");
  if (auto ok = show(memory, place); !ok)
    return ok;
  if (auto ok = look(place); !ok) {
    hide(place);
    return ok;
  }
  if (place_ != 0)
    hide(place_);
  memory_ = memory;
  place_ = place;
  return {};
}

void conditions::forget(memory_id memory) {
  if (place_ == 0 || memory_ != memory)
    return;
  hide(place_);
  place_ = 0;
}

status conditions::show(memory_id memory, device_address place) {
  auto handle = memories_.whole(memory);
  if (handle == 0)
    return fault{CUDA_ERROR_INVALID_VALUE, "conditions lie in no such memory"};
  CUdeviceptr got = 0;
  auto code =
      api_->cuMemAddressReserve(&got, condition_bytes, granule_bytes, place, 0);
  if (code != CUDA_SUCCESS || got != place) {
    if (code == CUDA_SUCCESS)
      (void)api_->cuMemAddressFree(got, condition_bytes);
    return not_so("the addresses at " + std::to_string(place) + " are taken");
  }
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device_}};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  auto ok = api_->check(api_->cuMemMap(place, condition_bytes, 0, handle, 0),
                        "cuMemMap");
  if (!ok) {
    (void)api_->cuMemAddressFree(place, condition_bytes);
    return ok;
  }
  ok = api_->check(api_->cuMemSetAccess(place, condition_bytes, &access, 1),
                   "cuMemSetAccess");
  if (!ok)
    hide(place);
  return ok;
}

void conditions::hide(device_address place) {
  (void)api_->cuMemUnmap(place, condition_bytes);
  (void)api_->cuMemAddressFree(place, condition_bytes);
}

/// In the last words, which no condition has.
status conditions::look(device_address place) {
  std::array<std::uint32_t, 2> base{~0U, ~0U};
  CUdeviceptr out = place + condition_bytes - sizeof(base);
  std::array<void*, 1> parameters{&out};
  CUstream in = nullptr;
  if (auto ok = api_->check(
          api_->cuStreamCreateWithPriority(&in, CU_STREAM_NON_BLOCKING, 0),
          "cuStreamCreateWithPriority");
      !ok)
    return ok;
  auto ok = api_->check(api_->cuLaunchKernel(kernel_, 1, 1, 1, 1, 1, 1, 0, in,
                                             parameters.data(), nullptr),
                        "cuLaunchKernel");
  // Into memory of the process's own: it waits.
  if (ok)
    ok = api_->check(
        api_->cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(base.data()), out,
                            sizeof(base), in),
        "cuMemcpyAsync");
  for (auto code = CUDA_ERROR_NOT_READY; ok && code == CUDA_ERROR_NOT_READY;)
    if (code = api_->cuStreamQuery(in); code != CUDA_ERROR_NOT_READY)
      ok = api_->check(code, "a look at what the driver gives kernels");
  (void)api_->cuStreamDestroy(in);
  if (!ok)
    return ok;
  return base == std::array<std::uint32_t, 2>{}
             ? status{}
             : status{not_so("it gives all kernels a place for them")};
}

} // namespace vgpu::device::nvidia
