// Contexts: none, primary, created, of other threads; their limits.
#include "truth_case.hpp"

#include <bit>
#include <thread>

namespace vgpu::test {

namespace {

void no_context_refused(report& out) {
  require(cuInit(0), "cuInit");
  CUdeviceptr p = 0;
  CUstream stream = nullptr;
  CUmodule module = nullptr;
  CUdevice device = 0;
  out << cuMemAlloc(&p, 16) << cuCtxSynchronize() << cuStreamCreate(&stream, 0)
      << cuModuleLoadData(&module, "") << cuCtxGetDevice(&device);
}

void no_context_answered(report& out) {
  require(cuInit(0), "cuInit");
  CUcontext context = nullptr;
  out << cuCtxGetCurrent(&context) << (context ? "not null" : "null")
      << cuCtxPopCurrent(&context)
      << cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr,
                        nullptr);
}

void primary_context(report& out) {
  require(cuInit(0), "cuInit");
  unsigned flags = 99;
  int active = -1;
  out << cuDevicePrimaryCtxGetState(0, &flags, &active) << "active" << active
      << "flags" << static_cast<int>(flags);
  CUcontext first = nullptr, second = nullptr;
  out << cuDevicePrimaryCtxRetain(&first, 0)
      << cuDevicePrimaryCtxRetain(&second, 0) << "same" << (first == second);
  out << cuDevicePrimaryCtxGetState(0, &flags, &active) << "active" << active;
  out << cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_BLOCKING_SYNC)
      << cuDevicePrimaryCtxRelease(0) << cuDevicePrimaryCtxRelease(0)
      << cuDevicePrimaryCtxRelease(0);
}

void created_context(report& out) {
  require(cuInit(0), "cuInit");
  CUcontext created = nullptr, primary = nullptr;
  out << cuCtxCreate(&created, nullptr, 0, 0) << cuCtxDestroy(created);
  out << cuDevicePrimaryCtxRetain(&primary, 0) << cuCtxDestroy(primary);
}

void fresh_thread(report& out) {
  use_device();
  CUcontext context = nullptr;
  require(cuCtxGetCurrent(&context), "cuCtxGetCurrent");
  std::thread([&] {
    CUcontext current = nullptr;
    require(cuCtxGetCurrent(&current), "cuCtxGetCurrent");
    if (current)
      out << "a context is current";
    CUdeviceptr p = 0;
    out << cuMemAlloc(&p, 16) << cuCtxSetCurrent(context) << cuMemAlloc(&p, 16);
  }).join();
}

void limits(report& out) {
  use_device();
  auto ask = [&](CUlimit limit) {
    size_t value = 0;
    out << cuCtxGetLimit(&value, limit) << static_cast<long long>(value);
  };
  ask(CU_LIMIT_STACK_SIZE);
  ask(CU_LIMIT_PRINTF_FIFO_SIZE);
  ask(CU_LIMIT_MALLOC_HEAP_SIZE);
  size_t value = 0;
  out << cuCtxGetLimit(&value, std::bit_cast<CUlimit>(999))
      << cuCtxSetLimit(CU_LIMIT_STACK_SIZE, size_t{1} << 30);
}

void rounded_limits(report& out) {
  use_device();
  auto set = [&](CUlimit limit, size_t asked) {
    size_t value = 0;
    out << cuCtxSetLimit(limit, asked);
    require(cuCtxGetLimit(&value, limit), "cuCtxGetLimit");
    out << static_cast<long long>(value);
  };
  set(CU_LIMIT_STACK_SIZE, 1025);
  set(CU_LIMIT_PRINTF_FIFO_SIZE, 0);
  set(CU_LIMIT_PRINTF_FIFO_SIZE, 1000001);
  set(CU_LIMIT_MALLOC_HEAP_SIZE, 1000001);
  set(CU_LIMIT_MALLOC_HEAP_SIZE, 8388609);
  set(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 1);
  int cache = 0;
  size_t way = 0;
  require(cuDeviceGetAttribute(&cache, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 0),
          "cuDeviceGetAttribute");
  out << cuCtxSetLimit(CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 1);
  require(cuCtxGetLimit(&way, CU_LIMIT_PERSISTING_L2_CACHE_SIZE),
          "cuCtxGetLimit");
  out << (static_cast<int>(way) == cache / 16 ? "a way" : "something else");
}

void context_flags(report& out) {
  use_device();
  unsigned flags = 99;
  int active = -1;
  auto told = [&] { out << static_cast<int>(flags); };
  out << cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_BLOCKING_SYNC)
      << cuCtxGetFlags(&flags);
  told();
  out << cuDevicePrimaryCtxSetFlags(0, CU_CTX_MAP_HOST)
      << cuDevicePrimaryCtxSetFlags(0, CU_CTX_LMEM_RESIZE_TO_MAX)
      << cuDevicePrimaryCtxRelease(0)
      << cuDevicePrimaryCtxGetState(0, &flags, &active);
  told();
}

void create_after_fault(report& out) {
  require(cuInit(0), "cuInit");
  CUcontext context = nullptr;
  CUdeviceptr p = 0;
  require(cuCtxCreate(&context, nullptr, 0, 0), "cuCtxCreate");
  require(launch_store(kernel(load_kernels(), "store"), 16, 1),
          "cuLaunchKernel");
  out << cuCtxSynchronize() << cuCtxDestroy(context)
      << cuCtxCreate(&context, nullptr, 0, 0) << cuMemAlloc(&p, 4);
}

void free_in_destroyed(report& out) {
  use_device();
  auto p = allocate(4);
  out << cuDevicePrimaryCtxReset(0) << cuMemFree(p);
}

constexpr truth_case cases[] = {
    {"no_context_refused",
     "no context: MemAlloc, CtxSynchronize, StreamCreate, ModuleLoadData, "
     "CtxGetDevice",
     "CUDA_ERROR_INVALID_CONTEXT CUDA_ERROR_INVALID_CONTEXT "
     "CUDA_ERROR_INVALID_CONTEXT CUDA_ERROR_INVALID_CONTEXT "
     "CUDA_ERROR_INVALID_CONTEXT",
     no_context_refused},
    {"no_context_answered",
     "no context: CtxGetCurrent (null?), CtxPopCurrent, LaunchKernel(null)",
     "CUDA_SUCCESS null CUDA_ERROR_INVALID_CONTEXT CUDA_ERROR_INVALID_CONTEXT",
     no_context_answered},
    {"primary_context",
     "PrimaryCtx: state before retain, retain, again, state, flags set while "
     "active, release, again, once too often",
     "CUDA_SUCCESS active 0 flags 0 CUDA_SUCCESS CUDA_SUCCESS same 1 "
     "CUDA_SUCCESS active 1 CUDA_SUCCESS CUDA_SUCCESS CUDA_SUCCESS "
     "CUDA_ERROR_INVALID_CONTEXT",
     primary_context},
    {"created_context",
     "CtxCreate, CtxDestroy; PrimaryCtxRetain, CtxDestroy(primary)",
     "CUDA_SUCCESS CUDA_SUCCESS CUDA_SUCCESS CUDA_ERROR_INVALID_CONTEXT",
     created_context},
    {"fresh_thread",
     "fresh thread: CtxGetCurrent null, MemAlloc; CtxSetCurrent, MemAlloc",
     "CUDA_ERROR_INVALID_CONTEXT CUDA_SUCCESS CUDA_SUCCESS", fresh_thread},
    {"limits", "CtxGetLimit stack, printf, heap, bad; SetLimit stack 1<<30",
     "CUDA_SUCCESS 1024 CUDA_SUCCESS # CUDA_SUCCESS 8388608 "
     "CUDA_ERROR_INVALID_VALUE CUDA_ERROR_INVALID_VALUE",
     limits},
    {"rounded_limits",
     "SetLimit and GetLimit: stack 1025, printf 0 and 1000001, heap 1000001 "
     "and 8388609, pending launches 1, persisting cache 1",
     "CUDA_SUCCESS 1040 CUDA_SUCCESS 524288 CUDA_SUCCESS 1000192 "
     "CUDA_SUCCESS 4194304 CUDA_SUCCESS 8454144 CUDA_SUCCESS 32 "
     "CUDA_SUCCESS a way",
     rounded_limits},
    {"context_flags",
     "PrimaryCtxSetFlags 4, CtxGetFlags; PrimaryCtxSetFlags 8, 16; the last "
     "release, state",
     "CUDA_SUCCESS CUDA_SUCCESS 12 CUDA_ERROR_INVALID_VALUE CUDA_SUCCESS "
     "CUDA_SUCCESS CUDA_SUCCESS 0",
     context_flags},
    {"create_after_fault",
     "behind a kernel that faults: CtxSynchronize, CtxDestroy, CtxCreate, "
     "MemAlloc",
     "CUDA_ERROR_ILLEGAL_ADDRESS CUDA_SUCCESS CUDA_ERROR_ILLEGAL_ADDRESS "
     "CUDA_ERROR_INVALID_CONTEXT",
     create_after_fault},
    {"free_in_destroyed", "MemAlloc, PrimaryCtxReset, MemFree",
     "CUDA_SUCCESS CUDA_ERROR_CONTEXT_IS_DESTROYED", free_in_destroyed},
};

} // namespace

std::span<const truth_case> context_cases() {
  return cases;
}

} // namespace vgpu::test
