// Entry points for memory and events that processes share.
#include "interposer/api/waiting.hpp"

#include "interposer/memory/sharing.hpp"

using namespace vgpu::interposer;

namespace {

CUresult open_memory(CUdeviceptr* out, const CUipcMemHandle& handle,
                     unsigned flags) noexcept {
  return in_waiting_context([&](context& x) {
    if (out == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
      return CUDA_ERROR_INVALID_VALUE;
    return sharing().open(x, handle, *out);
  });
}

} // namespace

CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle* pHandle, CUdeviceptr dptr) {
  return in_waiting_context([&](context&) {
    return pHandle == nullptr ? CUDA_ERROR_INVALID_VALUE
                              : sharing().handle_of(dptr, *pHandle);
  });
}

CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr* pdptr, CUipcMemHandle handle,
                                    unsigned int Flags) {
  return open_memory(pdptr, handle, Flags);
}

extern "C" {
CUresult ipc_open_mem_handle_v1(CUdeviceptr* pdptr, CUipcMemHandle handle,
                                unsigned int flags)
    VGPU_EXPORT_AS("cuIpcOpenMemHandle");
}
CUresult ipc_open_mem_handle_v1(CUdeviceptr* pdptr, CUipcMemHandle handle,
                                unsigned int flags) {
  return open_memory(pdptr, handle, flags);
}

CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr dptr) {
  return in_waiting_context([&](context&) {
    return sharing().close(dptr, shared_things::by::handle);
  });
}

CUresult CUDAAPI cuIpcGetEventHandle(CUipcEventHandle* pHandle, CUevent event) {
  return in_context([&](context&) -> CUresult {
    auto* x = events().find(event);
    if (x == nullptr)
      return CUDA_ERROR_INVALID_HANDLE;
    return pHandle == nullptr ? CUDA_ERROR_INVALID_VALUE
                              : sharing().handle_of(*x, *pHandle);
  });
}

CUresult CUDAAPI cuIpcOpenEventHandle(CUevent* phEvent,
                                      CUipcEventHandle handle) {
  return in_context([&](context& x) {
    return phEvent == nullptr ? CUDA_ERROR_INVALID_VALUE
                              : sharing().open(x, handle, *phEvent);
  });
}
