// Launches: refused ones, and kernels that fail while they run.
#include "truth_case.hpp"

namespace vgpu::test {

namespace {

void bad_shapes(report& out) {
  use_device();
  auto nothing = kernel(load_kernels(), "nothing");
  struct shape {
    unsigned grid_x, grid_y, block_x, block_z, shared;
  };
  for (auto s : {shape{1, 1, 0, 1, 0}, shape{1, 1, 1025, 1, 0},
                 shape{1, 1, 1, 65, 0}, shape{0, 1, 1, 1, 0},
                 shape{1, 70000, 1, 1, 0}, shape{1, 1, 1, 1, 1 << 20}})
    out << cuLaunchKernel(nothing, s.grid_x, s.grid_y, 1, s.block_x, 1,
                          s.block_z, s.shared, nullptr, nullptr, nullptr);
}

/// The parameters of `store` in one piece.
struct packed {
  CUdeviceptr address;
  unsigned value;
  unsigned padding = 0;
};

CUresult launch_packed(CUfunction store, packed* parameters, size_t size,
                       void** list) {
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, parameters,
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  return cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, list, extra);
}

void bad_parameters(report& out) {
  use_device();
  auto module = load_kernels();
  auto store = kernel(module, "store");
  auto bounded = kernel(module, "bounded");
  out << cuLaunchKernel(bounded, 1, 1, 1, 65, 1, 1, 0, nullptr, nullptr,
                        nullptr)
      << cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr)
      << cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr,
                        nullptr);
  packed parameters{allocate(16), 1};
  void* list[] = {&parameters.address, &parameters.value};
  out << launch_packed(store, &parameters, 12, list);
}

void packed_sizes(report& out) {
  use_device();
  auto store = kernel(load_kernels(), "store");
  packed parameters[2] = {{allocate(16), 1}, {0, 0}};
  out << launch_packed(store, parameters, 12, nullptr) << cuCtxSynchronize()
      << launch_packed(store, parameters, 8, nullptr)
      << launch_packed(store, parameters, 24, nullptr) << cuCtxSynchronize();
}

void illegal_address(report& out) {
  use_device();
  auto module = load_kernels();
  auto store = kernel(module, "store");
  auto p = allocate(16);
  CUdeviceptr q = 0;
  CUevent event = nullptr;
  CUcontext context = nullptr;
  out << launch_store(store, 0x10, 1) << cuCtxSynchronize()
      << cuCtxSynchronize() << cuMemAlloc(&q, 16) << cuMemFree(p)
      << cuEventCreate(&event, 0) << cuStreamQuery(nullptr)
      << cuCtxGetCurrent(&context) << cuModuleUnload(module);
}

void reset_after_illegal_address(report& out) {
  auto device = use_device();
  auto store = kernel(load_kernels(), "store");
  require(launch_store(store, 0x10, 1), "cuLaunchKernel");
  cuCtxSynchronize();
  CUdeviceptr p = 0;
  out << cuDevicePrimaryCtxReset(device) << cuMemAlloc(&p, 16)
      << cuCtxSynchronize();
}

void retain_after_illegal_address(report& out) {
  auto device = use_device();
  auto store = kernel(load_kernels(), "store");
  require(launch_store(store, 0x10, 1), "cuLaunchKernel");
  cuCtxSynchronize();
  CUcontext context = nullptr;
  out << cuDevicePrimaryCtxReset(device)
      << cuDevicePrimaryCtxRetain(&context, device);
}

void launch_events(report& out) {
  use_device();
  auto nothing = kernel(load_kernels(), "nothing");
  CUlaunchConfig how{};
  how.gridDimX = how.gridDimY = how.gridDimZ = 1;
  how.blockDimX = how.blockDimY = how.blockDimZ = 1;
  CUlaunchAttribute attribute{};
  how.attrs = &attribute;
  how.numAttrs = 1;
  for (unsigned flags : {0U, 2U, 1U, 6U})
    for (auto id : {CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT,
                    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT}) {
      CUevent event{};
      require(cuEventCreate(&event, flags), "cuEventCreate");
      attribute = {};
      attribute.id = id;
      if (id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
        attribute.value.programmaticEvent.event = event;
      else
        attribute.value.launchCompletionEvent.event = event;
      out << cuLaunchKernelEx(&how, nothing, nullptr, nullptr);
    }
}

void misaligned_address(report& out) {
  use_device();
  auto store = kernel(load_kernels(), "store");
  require(launch_store(store, allocate(16) + 1, 1), "cuLaunchKernel");
  out << cuCtxSynchronize();
}

void write_past_the_end(report& out) {
  use_device();
  auto store = kernel(load_kernels(), "store");
  require(launch_store(store, allocate(256) + 4096, 1), "cuLaunchKernel");
  out << cuCtxSynchronize();
}

void trap(report& out) {
  use_device();
  auto trap_now = kernel(load_kernels(), "trap_now");
  out << cuLaunchKernel(trap_now, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr,
                        nullptr)
      << cuCtxSynchronize();
}

constexpr truth_case cases[] = {
    {"bad_shapes",
     "Launch: block 0, 1025, z 65, grid 0, grid.y 70000, smem 1 MiB",
     "CUDA_ERROR_INVALID_VALUE CUDA_ERROR_INVALID_VALUE "
     "CUDA_ERROR_INVALID_VALUE CUDA_ERROR_INVALID_VALUE "
     "CUDA_ERROR_INVALID_VALUE CUDA_ERROR_INVALID_VALUE",
     bad_shapes},
    {"bad_parameters",
     "Launch: maxntid exceeded, no params given, null function, both params "
     "and extra",
     "CUDA_ERROR_INVALID_VALUE CUDA_ERROR_INVALID_VALUE "
     "CUDA_ERROR_INVALID_HANDLE CUDA_ERROR_INVALID_VALUE",
     bad_parameters},
    {"packed_sizes",
     "Launch extra: right size, synchronize, size too small, too large, "
     "synchronize",
     "CUDA_SUCCESS CUDA_SUCCESS CUDA_SUCCESS "
     "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES CUDA_SUCCESS",
     packed_sizes},
    {"launch_events",
     "Launch completion and programmatic events: default, no times, blocking, "
     "for other processes",
     "CUDA_ERROR_NOT_SUPPORTED CUDA_ERROR_NOT_SUPPORTED CUDA_SUCCESS "
     "CUDA_SUCCESS CUDA_ERROR_NOT_SUPPORTED CUDA_ERROR_NOT_SUPPORTED "
     "CUDA_ERROR_NOT_SUPPORTED CUDA_ERROR_NOT_SUPPORTED",
     launch_events},
    {"illegal_address",
     "illegal address: launch, sync, sync, MemAlloc, MemFree, EventCreate, "
     "StreamQuery, CtxGetCurrent, ModuleUnload",
     "CUDA_SUCCESS CUDA_ERROR_ILLEGAL_ADDRESS CUDA_ERROR_ILLEGAL_ADDRESS "
     "CUDA_ERROR_ILLEGAL_ADDRESS CUDA_ERROR_ILLEGAL_ADDRESS "
     "CUDA_ERROR_ILLEGAL_ADDRESS CUDA_ERROR_ILLEGAL_ADDRESS CUDA_SUCCESS "
     "CUDA_ERROR_ILLEGAL_ADDRESS",
     illegal_address},
    {"reset_after_illegal_address",
     "illegal address, then PrimaryCtxReset, MemAlloc, CtxSynchronize",
     "CUDA_SUCCESS CUDA_ERROR_CONTEXT_IS_DESTROYED "
     "CUDA_ERROR_CONTEXT_IS_DESTROYED",
     reset_after_illegal_address},
    {"retain_after_illegal_address",
     "illegal address, then PrimaryCtxReset, PrimaryCtxRetain",
     "CUDA_SUCCESS CUDA_ERROR_ILLEGAL_ADDRESS", retain_after_illegal_address},
    {"misaligned_address", "misaligned address: sync",
     "CUDA_ERROR_MISALIGNED_ADDRESS", misaligned_address},
    {"write_past_the_end", "write 4 KiB past a 256-byte allocation: sync",
     "CUDA_SUCCESS", write_past_the_end},
    {"trap", "trap: launch, sync", "CUDA_SUCCESS CUDA_ERROR_LAUNCH_FAILED",
     trap},
};

} // namespace

std::span<const truth_case> launch_cases() {
  return cases;
}

} // namespace vgpu::test
