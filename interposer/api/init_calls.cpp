// Entry points for initialisation, the version and the profiler.
#include "interposer/api/entry.hpp"

#include "interposer/api/driver_state.hpp"
#include "interposer/session/on_occasion.hpp"

using namespace vgpu::interposer;

CUresult CUDAAPI cuInit(unsigned int Flags) {
  if (auto now = process::now(); now == phase::forked || now == phase::ended)
    return process::phase_error();
  if (Flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (!make_driver_state())
    return CUDA_ERROR_OUT_OF_MEMORY;
  auto code = process::initialise();
  if (code == CUDA_SUCCESS)
    on_occasion<vgpu::occasion::first_use>(
        [] { cupti_part::get().session_began(); });
  return code;
}

CUresult CUDAAPI cuDriverGetVersion(int* driverVersion) {
  if (driverVersion == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *driverVersion = process::driver_version;
  return CUDA_SUCCESS;
}

// Profilers use libcupti.so (interposer/cupti), so there is none to start here.
CUresult CUDAAPI cuProfilerInitialize(const char*, const char*, CUoutput_mode) {
  return guarded([] { return CUDA_ERROR_PROFILER_DISABLED; });
}
CUresult CUDAAPI cuProfilerStart(void) {
  return in_context([](context&) { return CUDA_SUCCESS; });
}
CUresult CUDAAPI cuProfilerStop(void) {
  return in_context([](context&) { return CUDA_SUCCESS; });
}
