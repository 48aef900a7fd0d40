// Entry points that launch. Compiled twice: see flavour.hpp.
#include "interposer/api/flavour.hpp"

#include "interposer/graph/captured_work.hpp"

using namespace vgpu::interposer;

CUresult CUDAAPI cuLaunchKernel(CUfunction f, unsigned int gridDimX,
                                unsigned int gridDimY, unsigned int gridDimZ,
                                unsigned int blockDimX, unsigned int blockDimY,
                                unsigned int blockDimZ,
                                unsigned int sharedMemBytes, CUstream hStream,
                                void** kernelParams, void** extra) {
  call_arguments given{__func__,       f,         gridDimX,     gridDimY,
                       gridDimZ,       blockDimX, blockDimY,    blockDimZ,
                       sharedMemBytes, hStream,   kernelParams, extra};
  return in_stream(hStream, [&](stream& s) {
    return launch_in_stream(
        s, {.function = f,
            .shape = {.grid = {gridDimX, gridDimY, gridDimZ},
                      .block = {blockDimX, blockDimY, blockDimZ},
                      .shared_bytes = sharedMemBytes},
            .parameters = kernelParams,
            .extra = extra});
  });
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f,
                                  void** kernelParams, void** extra) {
  call_arguments given{__func__, config, f, kernelParams, extra};
  if (config == nullptr)
    return guarded([] { return CUDA_ERROR_INVALID_VALUE; });
  return in_stream(config->hStream, [&](stream& s) {
    launch_request what{
        .function = f,
        .shape = {.grid = {config->gridDimX, config->gridDimY,
                           config->gridDimZ},
                  .block = {config->blockDimX, config->blockDimY,
                            config->blockDimZ},
                  .shared_bytes = config->sharedMemBytes},
        .parameters = kernelParams,
        .extra = extra};
    launch_attributes with;
    auto use =
        s.is_captured() ? attribute_use::captured : attribute_use::launch;
    if (auto code = with.take(use, s.device(), *config, what.shape);
        code != CUDA_SUCCESS)
      return code;
    if (auto code = check_events(s, with); code != CUDA_SUCCESS)
      return code;
    what.with = with.empty() ? nullptr : &with;
    if (auto code = launch_in_stream(s, what); code != CUDA_SUCCESS)
      return code;
    return use == attribute_use::launch && !with.events().empty()
               ? record_events(s, with)
               : CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuLaunchCooperativeKernel(
    CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
    unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
    unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
    void** kernelParams) {
  call_arguments given{__func__,       f,         gridDimX,    gridDimY,
                       gridDimZ,       blockDimX, blockDimY,   blockDimZ,
                       sharedMemBytes, hStream,   kernelParams};
  return in_stream(hStream, [&](stream& s) {
    return launch_in_stream(
        s, {.function = f,
            .shape = {.grid = {gridDimX, gridDimY, gridDimZ},
                      .block = {blockDimX, blockDimY, blockDimZ},
                      .shared_bytes = sharedMemBytes,
                      .cooperative = true},
            .parameters = kernelParams});
  });
}
