#include "devices/nvidia/driver/conditions.hpp"

#include "schema/base/cuda_fault.hpp"

#include <array>
#include <cstring>
#include <string>

#include <sys/mman.h>

namespace vgpu::device::nvidia {

namespace {

// This kernel reads the two words in which the driver gives a launch the base
// address of its graph's conditions, as cudaGraphSetConditional does.
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
  return cuda_fault(
      CUDA_ERROR_NOT_SUPPORTED,
      "this driver's kernels can set conditions in its own graphs only: " +
          why);
}

} // namespace

conditions::conditions(driver_ptr api) : api_(std::move(api)) {}

/// The behaviour of cudaGraphSetConditional is known only for driver 580 (CUDA
/// 13.0) on compute capability 9.0. Elsewhere kernels might write to any
/// address.
void conditions::open(const properties& of) {
  auto version = 0;
  if (api_->cuDriverGetVersion(&version) != CUDA_SUCCESS ||
      version / 10 != 1300)
    return;
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

status conditions::set(memory_id memory, device_address address,
                       device_address place) {
  if (kernel_ == nullptr)
    return not_so("this device or driver version is unknown");
  if (place_ != place) {
    if (place_ != 0)
      return not_so("the conditions are at other addresses already");
    if (auto ok = show(place); !ok)
      return ok;
  }
  memory_ = memory;
  address_ = address;
  bytes_ = condition_bytes;
  return {};
}

void conditions::forget(memory_id memory) noexcept {
  if (memory_ == memory)
    bytes_ = 0;
}

/// Maps the words at the addresses that handles can name. The driver gives its
/// own memory no addresses that low, but accepts a process's memory at any
/// address.
status conditions::show(device_address place) {
  auto* wanted = reinterpret_cast<void*>(place);
  auto* at = ::mmap(wanted, condition_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (at == MAP_FAILED)
    return not_so("the addresses at " + std::to_string(place) + " are taken");
  mapping words{at, condition_bytes};
  if (at != wanted) // a Linux kernel that does not know the flag
    return not_so("the addresses at " + std::to_string(place) + " are taken");
  if (auto ok = api_->check(api_->cuMemHostRegister(at, condition_bytes, 0),
                            "cuMemHostRegister");
      !ok)
    return not_so(ok.why().what);
  words_ = std::move(words);
  place_ = place;
  auto ok = look();
  if (ok)
    return ok;
  (void)api_->cuMemHostUnregister(at);
  place_ = 0;
  words_ = {};
  return ok;
}

/// Checks that the base address of conditions is 0. The kernel writes the base
/// address into the last words, which belong to no condition.
status conditions::look() {
  using base = std::array<std::uint32_t, 2>;
  CUdeviceptr out = place_ + condition_bytes - sizeof(base);
  base got{~0U, ~0U};
  std::memcpy(reinterpret_cast<void*>(out), &got, sizeof(got));
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
  for (auto code = CUDA_ERROR_NOT_READY; ok && code == CUDA_ERROR_NOT_READY;)
    if (code = api_->cuStreamQuery(in); code != CUDA_ERROR_NOT_READY)
      ok = api_->check(
          code, "cannot read the address that the driver gives to kernels");
  (void)api_->cuStreamDestroy(in);
  if (!ok)
    return ok;
  std::memcpy(&got, reinterpret_cast<const void*>(out), sizeof(got));
  return got == base{}
             ? status{}
             : status{not_so("it gives conditions of its own to all kernels")};
}

} // namespace vgpu::device::nvidia
