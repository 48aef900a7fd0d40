#include "truth_case.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>

namespace vgpu::test {

namespace {

constexpr const char* kernels = R"(
.version 7.0
.target sm_75
.address_size 64

.visible .global .align 4 .b8 table[16];

.visible .entry nothing()
{
  ret;
}

.visible .entry store(.param .u64 address, .param .u32 value)
{
  .reg .b64 %d0;
  .reg .b32 %r0;
  ld.param.u64 %d0, [address];
  ld.param.u32 %r0, [value];
  st.global.u32 [%d0], %r0;
  ret;
}

.visible .entry bounded()
.maxntid 64, 1, 1
{
  ret;
}

.visible .entry trap_now()
{
  trap;
  ret;
}
)";

} // namespace

void report::write(std::string_view word) {
  std::string text{first_ ? "" : " "};
  first_ = false;
  text += word;
  // A case's answers fit in one write; stdout is a file in memory.
  if (::write(STDOUT_FILENO, text.data(), text.size()) < 0)
    std::abort();
}

report& report::operator<<(CUresult result) {
  write(name_of(result));
  return *this;
}

report& report::operator<<(std::string_view word) {
  write(word);
  return *this;
}

report& report::operator<<(long long number) {
  write(std::to_string(number));
  return *this;
}

const char* name_of(CUresult result) {
#define VGPU_NAME(code)                                                        \
  case code:                                                                   \
    return #code
  switch (result) {
    VGPU_NAME(CUDA_SUCCESS);
    VGPU_NAME(CUDA_ERROR_INVALID_VALUE);
    VGPU_NAME(CUDA_ERROR_OUT_OF_MEMORY);
    VGPU_NAME(CUDA_ERROR_NOT_INITIALIZED);
    VGPU_NAME(CUDA_ERROR_DEINITIALIZED);
    VGPU_NAME(CUDA_ERROR_NO_DEVICE);
    VGPU_NAME(CUDA_ERROR_INVALID_DEVICE);
    VGPU_NAME(CUDA_ERROR_INVALID_IMAGE);
    VGPU_NAME(CUDA_ERROR_INVALID_CONTEXT);
    VGPU_NAME(CUDA_ERROR_MAP_FAILED);
    VGPU_NAME(CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    VGPU_NAME(CUDA_ERROR_INVALID_PTX);
    VGPU_NAME(CUDA_ERROR_NO_BINARY_FOR_GPU);
    VGPU_NAME(CUDA_ERROR_INVALID_SOURCE);
    VGPU_NAME(CUDA_ERROR_INVALID_HANDLE);
    VGPU_NAME(CUDA_ERROR_ILLEGAL_STATE);
    VGPU_NAME(CUDA_ERROR_NOT_FOUND);
    VGPU_NAME(CUDA_ERROR_NOT_READY);
    VGPU_NAME(CUDA_ERROR_ILLEGAL_ADDRESS);
    VGPU_NAME(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    VGPU_NAME(CUDA_ERROR_CONTEXT_IS_DESTROYED);
    VGPU_NAME(CUDA_ERROR_MISALIGNED_ADDRESS);
    VGPU_NAME(CUDA_ERROR_LAUNCH_FAILED);
    VGPU_NAME(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    VGPU_NAME(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    VGPU_NAME(CUDA_ERROR_NOT_PERMITTED);
    VGPU_NAME(CUDA_ERROR_NOT_SUPPORTED);
    VGPU_NAME(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    VGPU_NAME(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    VGPU_NAME(CUDA_ERROR_UNKNOWN);
  default:
    break;
  }
#undef VGPU_NAME
  static char number[32];
  std::snprintf(number, sizeof number, "CUresult_%d", static_cast<int>(result));
  return number;
}

void require(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS)
    return;
  report{} << " (stopped:" << call << "gave" << result << ")";
  std::_Exit(3);
}

CUdevice use_device() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  require(cuInit(0), "cuInit");
  require(cuDeviceGet(&device, 0), "cuDeviceGet");
  require(cuDevicePrimaryCtxRetain(&context, device),
          "cuDevicePrimaryCtxRetain");
  require(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  return device;
}

CUdeviceptr allocate(size_t bytes) {
  CUdeviceptr p = 0;
  require(cuMemAlloc(&p, bytes), "cuMemAlloc");
  return p;
}

CUmodule load_kernels() {
  CUmodule module = nullptr;
  require(cuModuleLoadData(&module, kernels), "cuModuleLoadData");
  return module;
}

CUfunction kernel(CUmodule module, const char* name) {
  CUfunction function = nullptr;
  require(cuModuleGetFunction(&function, module, name), name);
  return function;
}

CUresult launch_store(CUfunction store, CUdeviceptr address, unsigned value) {
  void* parameters[] = {&address, &value};
  return cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters,
                        nullptr);
}

} // namespace vgpu::test
