// Entry points that work on a stream. Compiled twice: see flavour.hpp.
#include "interposer/flavour.hpp"

#include "interposer/host_call.hpp"
#include "interposer/pool.hpp"
#include "interposer/session.hpp"

#include <cstring>

using namespace vgpu::interposer;

// -- synchronising
// -----------------------------------------------------------------

CUresult CUDAAPI cuStreamSynchronize(CUstream hStream) {
  return in_stream(hStream, [](stream& s) { return synchronise(s); });
}

CUresult CUDAAPI cuStreamQuery(CUstream hStream) {
  return in_stream(hStream, [](stream& s) { return query(s); });
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream hStream, CUevent hEvent,
                                   unsigned int Flags) {
  return in_stream(hStream, [&](stream& s) {
    auto* e = events().find(hEvent);
    if (e == nullptr)
      return CUDA_ERROR_INVALID_HANDLE;
    // External waits matter to graphs only.
    if ((Flags & ~CU_EVENT_WAIT_EXTERNAL) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (e->recorded.load() == 0)
      return CUDA_SUCCESS;
    s.worked(process::the_session().send(
        vgpu::call::stream_wait{{s.wire}, {e->wire}}, s.device()));
    return CUDA_SUCCESS;
  });
}

namespace {

CUresult record_in(CUevent event_handle, CUstream handle,
                   unsigned flags) noexcept {
  return in_stream(handle, [&](stream& s) {
    auto* e = events().find(event_handle);
    if (e == nullptr)
      return CUDA_ERROR_INVALID_HANDLE;
    if ((flags & ~CU_EVENT_RECORD_EXTERNAL) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    return record(*e, s);
  });
}

} // namespace

CUresult CUDAAPI cuEventRecord(CUevent hEvent, CUstream hStream) {
  return record_in(hEvent, hStream, 0);
}
CUresult CUDAAPI cuEventRecordWithFlags(CUevent hEvent, CUstream hStream,
                                        unsigned int flags) {
  return record_in(hEvent, hStream, flags);
}

// -- host functions
// ----------------------------------------------------------------

CUresult CUDAAPI cuLaunchHostFunc(CUstream hStream, CUhostFn fn,
                                  void* userData) {
  return in_stream(hStream, [&](stream& s) {
    return fn == nullptr ? CUDA_ERROR_INVALID_VALUE
                         : host_calls().add(s, fn, userData);
  });
}

CUresult CUDAAPI cuStreamAddCallback(CUstream hStream,
                                     CUstreamCallback callback, void* userData,
                                     unsigned int flags) {
  return in_stream(hStream, [&](stream& s) {
    return callback == nullptr || flags != 0
               ? CUDA_ERROR_INVALID_VALUE
               : host_calls().add(s, hStream, callback, userData);
  });
}

// -- stream-ordered memory
// -----------------------------------------------------------

CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr* dptr, size_t bytesize,
                                 CUstream hStream) {
  return in_stream(hStream, [&](stream& s) {
    if (dptr == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    return allocate_from(s.owner, current_pool(s.owner.device), bytesize,
                         *dptr);
  });
}

CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr* dptr, size_t bytesize,
                                         CUmemoryPool pool_handle,
                                         CUstream hStream) {
  return in_stream(hStream, [&](stream& s) {
    auto* from = pools().find(pool_handle);
    if (dptr == nullptr || from == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    return allocate_from(s.owner, *from, bytesize, *dptr);
  });
}

CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
  return in_stream(hStream, [&](stream&) { return free_to_pool(dptr); });
}

// -- properties
// ----------------------------------------------------------------------

CUresult CUDAAPI cuStreamGetPriority(CUstream hStream, int* priority) {
  return in_stream(hStream, [&](stream& s) {
    if (priority == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *priority = s.priority;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamGetFlags(CUstream hStream, unsigned int* flags) {
  return in_stream(hStream, [&](stream& s) {
    if (flags == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *flags = s.flags;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamGetId(CUstream hStream, unsigned long long* streamId) {
  return in_stream(hStream, [&](stream& s) {
    if (streamId == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *streamId = s.id;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamGetDevice(CUstream hStream, CUdevice* device) {
  return in_stream(hStream, [&](stream& s) {
    if (device == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *device = s.owner.device;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamGetCtx(CUstream hStream, CUcontext* pctx) {
  return in_stream(hStream, [&](stream& s) {
    if (pctx == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *pctx = s.owner.handle;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamGetCtx_v2(CUstream hStream, CUcontext* pCtx,
                                   CUgreenCtx* pGreenCtx) {
  return in_stream(hStream, [&](stream& s) {
    if (pCtx == nullptr || pGreenCtx == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *pCtx = s.owner.handle;
    *pGreenCtx = nullptr;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamCopyAttributes(CUstream dst, CUstream src) {
  return in_stream(dst, [&](stream& s) {
    return find_stream(s.owner, src, per_thread) == nullptr
               ? CUDA_ERROR_INVALID_HANDLE
               : CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr,
                                      CUstreamAttrValue* value_out) {
  return in_stream(hStream, [&](stream& s) {
    if (value_out == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    CUstreamAttrValue value;
    std::memset(&value, 0, sizeof(value));
    if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
      value.priority = s.priority;
    else if (attr == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY)
      value.syncPolicy = CU_SYNC_POLICY_AUTO;
    *value_out = value;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamSetAttribute(CUstream hStream, CUstreamAttrID,
                                      const CUstreamAttrValue* value) {
  // Hints, all of them: how to cache, how to wait.
  return in_stream(hStream, [&](stream&) {
    return value == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}

// -- capture: never under way
// ----------------------------------------------------------

CUresult CUDAAPI cuStreamIsCapturing(CUstream hStream,
                                     CUstreamCaptureStatus* captureStatus) {
  return in_stream(hStream, [&](stream&) {
    if (captureStatus == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *captureStatus = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamEndCapture(CUstream hStream, CUgraph* phGraph) {
  return in_stream(hStream, [&](stream&) {
    return phGraph == nullptr ? CUDA_ERROR_INVALID_VALUE
                              : CUDA_ERROR_ILLEGAL_STATE;
  });
}

namespace {

CUresult no_capture(CUstream handle, CUstreamCaptureStatus* status) noexcept {
  return in_stream(handle, [&](stream&) {
    if (status == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  });
}

} // namespace

CUresult CUDAAPI cuStreamGetCaptureInfo(
    CUstream hStream, CUstreamCaptureStatus* captureStatus_out, cuuint64_t*,
    CUgraph*, const CUgraphNode**, const CUgraphEdgeData**, size_t*) {
  return no_capture(hStream, captureStatus_out);
}

extern "C" {
CUresult VGPU_FLAVOURED(capture_info_v1)(CUstream handle,
                                         CUstreamCaptureStatus* status,
                                         cuuint64_t* id)
    VGPU_EXPORT_AS(VGPU_PTSZ("cuStreamGetCaptureInfo"));
CUresult VGPU_FLAVOURED(capture_info_v2)(CUstream handle,
                                         CUstreamCaptureStatus* status,
                                         cuuint64_t* id, CUgraph* graph,
                                         const CUgraphNode** dependencies,
                                         size_t* count)
    VGPU_EXPORT_AS(VGPU_PTSZ("cuStreamGetCaptureInfo_v2"));
}
CUresult VGPU_FLAVOURED(capture_info_v1)(CUstream handle,
                                         CUstreamCaptureStatus* status,
                                         cuuint64_t*) {
  return no_capture(handle, status);
}
CUresult VGPU_FLAVOURED(capture_info_v2)(CUstream handle,
                                         CUstreamCaptureStatus* status,
                                         cuuint64_t*, CUgraph*,
                                         const CUgraphNode**, size_t*) {
  return no_capture(handle, status);
}
