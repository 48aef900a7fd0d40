// Entry points for launches of CUDA 3: a function keeps its block's shape and
// its parameters, and a launch takes them from there.
#include "interposer/api/flavour.hpp"

#include "interposer/code/launch.hpp"
#include "interposer/graph/captured_work.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

using namespace vgpu::interposer;

namespace {

/// Runs a body with what a function keeps. A kernel of a library keeps nothing,
/// because it is younger than these calls.
template <class Body>
CUresult with_packed(CUfunction handle, const Body& body) noexcept {
  return by_handle([&]() -> CUresult {
    auto* known = functions().find(handle);
    if (known == nullptr)
      return CUDA_ERROR_INVALID_HANDLE;
    auto& packed = known->to->packed;
    std::lock_guard guard{packed.mutex};
    return body(packed);
  });
}

CUresult put(CUfunction handle, int offset, const void* from,
             std::size_t bytes) noexcept {
  return with_packed(handle, [&](packed_launch& x) -> CUresult {
    if (from == nullptr || offset < 0 ||
        static_cast<std::size_t>(offset) > most_parameters ||
        bytes > most_parameters - static_cast<std::size_t>(offset))
      return CUDA_ERROR_INVALID_VALUE;
    auto end = static_cast<std::size_t>(offset) + bytes;
    if (x.parameters.size() < end)
      x.parameters.resize(end);
    std::memcpy(x.parameters.data() + offset, from, bytes);
    return CUDA_SUCCESS;
  });
}

CUresult launch_grid(CUfunction handle, int width, int height,
                     CUstream in) noexcept {
  return in_stream(in, [&](stream& s) -> CUresult {
    auto* known = functions().find(handle);
    if (known == nullptr)
      return CUDA_ERROR_INVALID_HANDLE;
    auto& packed = known->to->packed;
    std::lock_guard guard{packed.mutex};
    auto bytes = std::size_t{packed.parameter_bytes};
    packed.parameters.resize(std::max(packed.parameters.size(), bytes));
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed.parameters.data(),
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    const auto& block = packed.block;
    return launch_in_stream(
        s, {.function = handle,
            .shape = {.grid = {static_cast<std::uint32_t>(width),
                               static_cast<std::uint32_t>(height), 1},
                      .block = {block[0], block[1], block[2]},
                      .shared_bytes = packed.shared_bytes},
            .extra = bytes == 0 ? nullptr : extra});
  });
}

} // namespace

CUresult CUDAAPI cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z) {
  return with_packed(hfunc, [&](packed_launch& packed) {
    if (x <= 0 || y <= 0 || z <= 0)
      return CUDA_ERROR_INVALID_VALUE;
    packed.block = {static_cast<std::uint32_t>(x),
                    static_cast<std::uint32_t>(y),
                    static_cast<std::uint32_t>(z)};
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes) {
  return with_packed(hfunc, [&](packed_launch& packed) {
    packed.shared_bytes = bytes;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuParamSetSize(CUfunction hfunc, unsigned int numbytes) {
  return with_packed(hfunc, [&](packed_launch& packed) {
    if (numbytes > most_parameters)
      return CUDA_ERROR_INVALID_VALUE;
    packed.parameter_bytes = numbytes;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuParamSeti(CUfunction hfunc, int offset, unsigned int value) {
  return put(hfunc, offset, &value, sizeof(value));
}
CUresult CUDAAPI cuParamSetf(CUfunction hfunc, int offset, float value) {
  return put(hfunc, offset, &value, sizeof(value));
}
CUresult CUDAAPI cuParamSetv(CUfunction hfunc, int offset, void* ptr,
                             unsigned int numbytes) {
  return put(hfunc, offset, ptr, numbytes);
}

CUresult CUDAAPI cuLaunch(CUfunction f) {
  return launch_grid(f, 1, 1, nullptr);
}
CUresult CUDAAPI cuLaunchGrid(CUfunction f, int grid_width, int grid_height) {
  return launch_grid(f, grid_width, grid_height, nullptr);
}
CUresult CUDAAPI cuLaunchGridAsync(CUfunction f, int grid_width,
                                   int grid_height, CUstream hStream) {
  return launch_grid(f, grid_width, grid_height, hStream);
}
