#include "bench_program.hpp"

#include <array>
#include <stdexcept>

namespace vgpu::bench {

namespace {

constexpr auto ptx = R"(
.version 8.0
.target sm_70
.address_size 64
.visible .entry nothing(.param .u64 a, .param .u64 b, .param .u64 c,
                        .param .u32 n)
{
  ret;
}
)";

} // namespace

void check(CUresult code, const char* call) {
  if (code == CUDA_SUCCESS)
    return;
  const char* name = nullptr;
  ::cuGetErrorName(code, &name);
  throw std::runtime_error{std::string{call} + ": " +
                           (name != nullptr ? name : "unknown error")};
}

program::program() {
  check(::cuInit(0), "cuInit");
  CUdevice device = 0;
  check(::cuDeviceGet(&device, 0), "cuDeviceGet");
  check(::cuDevicePrimaryCtxRetain(&context_, device),
        "cuDevicePrimaryCtxRetain");
  check(::cuCtxSetCurrent(context_), "cuCtxSetCurrent");
  check(::cuModuleLoadData(&module_, ptx), "cuModuleLoadData");
  check(::cuModuleGetFunction(&kernel_, module_, "nothing"),
        "cuModuleGetFunction");
  check(::cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  check(::cuMemAlloc(&memory_, memory_bytes), "cuMemAlloc");
  synchronise();
}

program& program::instance() {
  // It is never destroyed, because the vGPU ends with the process.
  static auto& one = *new program;
  return one;
}

void program::launch() const {
  auto a = memory_;
  auto b = memory_;
  auto c = memory_;
  unsigned n = 1;
  std::array<void*, 4> parameters{&a, &b, &c, &n};
  check(::cuLaunchKernel(kernel_, 1, 1, 1, 32, 1, 1, 0, nullptr,
                         parameters.data(), nullptr),
        "cuLaunchKernel");
}

void program::leave_something_pending() const {
  check(::cuEventRecord(event_, nullptr), "cuEventRecord");
}

void program::synchronise() const {
  check(::cuCtxSynchronize(), "cuCtxSynchronize");
}

} // namespace vgpu::bench
