#include "interposer/cupti/callback_names.hpp"

#include <algorithm>
#include <array>
#include <iterator>

namespace vgpu::cupti {

namespace {

struct numbered {
  std::string_view symbol;
  std::uint32_t number;
};

constexpr numbered driver_functions[] = {
#define VGPU_CBID(symbol, number) {#symbol, number},
#include "interposer/cupti/driver_cbids.def"
#undef VGPU_CBID
};
static_assert(std::is_sorted(std::begin(driver_functions),
                             std::end(driver_functions),
                             [](const numbered& a, const numbered& b) {
                               return a.symbol < b.symbol;
                             }));

/// Describes a function of the runtime: the driver's symbol begins with
/// `symbol`, and has no further part but `_v2`, `_ptds` or `_ptsz`.
struct runtime_call {
  std::string_view symbol;
  std::uint32_t number;
  const char* name;
};

constexpr runtime_call runtime_functions[] = {
    {"cuCtxSynchronize", 165, "cudaDeviceSynchronize_v3020"},
    {"cuEventCreate", 134, "cudaEventCreateWithFlags_v3020"},
    {"cuEventQuery", 138, "cudaEventQuery_v3020"},
    {"cuEventRecord", 135, "cudaEventRecord_v3020"},
    {"cuEventSynchronize", 137, "cudaEventSynchronize_v3020"},
    {"cuGraphLaunch", 311, "cudaGraphLaunch_v10000"},
    {"cuLaunchCooperativeKernel", 269, "cudaLaunchCooperativeKernel_v9000"},
    {"cuLaunchHostFunc", 284, "cudaLaunchHostFunc_v10000"},
    {"cuLaunchKernel", 211, "cudaLaunchKernel_v7000"},
    {"cuLaunchKernelEx", 430, "cudaLaunchKernelExC_v11060"},
    {"cuMemAlloc", 20, "cudaMalloc_v3020"},
    {"cuMemAllocAsync", 373, "cudaMallocAsync_v11020"},
    {"cuMemAllocManaged", 206, "cudaMallocManaged_v6000"},
    {"cuMemFree", 22, "cudaFree_v3020"},
    {"cuMemFreeAsync", 375, "cudaFreeAsync_v11020"},
    {"cuMemFreeHost", 26, "cudaFreeHost_v3020"},
    {"cuMemHostAlloc", 27, "cudaHostAlloc_v3020"},
    {"cuMemcpy", 31, "cudaMemcpy_v3020"},
    {"cuMemcpy2D", 32, "cudaMemcpy2D_v3020"},
    {"cuMemcpy2DAsync", 44, "cudaMemcpy2DAsync_v3020"},
    {"cuMemcpy2DUnaligned", 32, "cudaMemcpy2D_v3020"},
    {"cuMemcpyAsync", 41, "cudaMemcpyAsync_v3020"},
    {"cuMemcpyDtoD", 31, "cudaMemcpy_v3020"},
    {"cuMemcpyDtoDAsync", 41, "cudaMemcpyAsync_v3020"},
    {"cuMemcpyDtoH", 31, "cudaMemcpy_v3020"},
    {"cuMemcpyDtoHAsync", 41, "cudaMemcpyAsync_v3020"},
    {"cuMemcpyHtoD", 31, "cudaMemcpy_v3020"},
    {"cuMemcpyHtoDAsync", 41, "cudaMemcpyAsync_v3020"},
    {"cuMemcpyPeerAsync", 161, "cudaMemcpyPeerAsync_v4000"},
    {"cuMemsetD16", 49, "cudaMemset_v3020"},
    {"cuMemsetD16Async", 51, "cudaMemsetAsync_v3020"},
    {"cuMemsetD32", 49, "cudaMemset_v3020"},
    {"cuMemsetD32Async", 51, "cudaMemsetAsync_v3020"},
    {"cuMemsetD8", 49, "cudaMemset_v3020"},
    {"cuMemsetD8Async", 51, "cudaMemsetAsync_v3020"},
    {"cuStreamCreateWithPriority", 202, "cudaStreamCreateWithPriority_v5050"},
    {"cuStreamQuery", 132, "cudaStreamQuery_v3020"},
    {"cuStreamSynchronize", 131, "cudaStreamSynchronize_v3020"},
    {"cuStreamWaitEvent", 147, "cudaStreamWaitEvent_v3020"},
};

std::string_view without(std::string_view symbol, std::string_view ending) {
  return symbol.ends_with(ending)
             ? symbol.substr(0, symbol.size() - ending.size())
             : symbol;
}

} // namespace

std::uint32_t driver_function(std::string_view symbol) noexcept {
  const auto* end = std::end(driver_functions);
  const auto* found = std::lower_bound(
      std::begin(driver_functions), end, symbol,
      [](const numbered& a, std::string_view b) { return a.symbol < b; });
  return found != end && found->symbol == symbol ? found->number : 0;
}

const char* driver_function_name(std::uint32_t number) noexcept {
  for (const auto& x : driver_functions)
    if (x.number == number)
      return x.symbol.data(); // a literal, which ends with 0
  return nullptr;
}

std::uint32_t runtime_function(std::string_view symbol) noexcept {
  for (auto ending : {"_ptds", "_ptsz", "_v2"})
    symbol = without(symbol, ending);
  for (const auto& x : runtime_functions)
    if (x.symbol == symbol)
      return x.number;
  return 0;
}

const char* runtime_function_name(std::uint32_t number) noexcept {
  for (const auto& x : runtime_functions)
    if (x.number == number)
      return x.name;
  return nullptr;
}

} // namespace vgpu::cupti
