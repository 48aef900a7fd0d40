// Entry points that work on a stream. Compiled twice: see flavour.hpp.
#include "interposer/api/flavour.hpp"

#include "interposer/context/green_context.hpp"
#include "interposer/memory/memory.hpp"
#include "interposer/memory/pool.hpp"
#include "interposer/session/session.hpp"
#include "interposer/stream/host_call.hpp"
#include "interposer/stream/stream_attributes.hpp"

#include <cstring>

using namespace vgpu::interposer;

// -- synchronising
// -----------------------------------------------------------------

CUresult CUDAAPI cuStreamSynchronize(CUstream hStream) {
  call_arguments given{__func__, hStream};
  return in_stream(hStream, [](stream& s) {
    return s.is_captured() ? refuse_in_capture(s) : synchronise(s);
  });
}

CUresult CUDAAPI cuStreamQuery(CUstream hStream) {
  call_arguments given{__func__, hStream};
  return in_stream(hStream, [](stream& s) {
    return s.is_captured() ? refuse_in_capture(s) : query(s);
  });
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream hStream, CUevent hEvent,
                                   unsigned int Flags) {
  call_arguments given{__func__, hStream, hEvent, Flags};
  return in_stream(hStream, [&](stream& s) {
    auto* e = events().find(hEvent);
    if (e == nullptr)
      return CUDA_ERROR_INVALID_HANDLE;
    if ((Flags & ~CU_EVENT_WAIT_EXTERNAL) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    // External waits matter to graphs only.
    return s.is_captured() || e->is_captured()
               ? capture_wait(s, *e, Flags == CU_EVENT_WAIT_EXTERNAL)
               : wait(s, *e);
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
    if (s.is_captured())
      return capture_record(*e, s, flags == CU_EVENT_RECORD_EXTERNAL);
    e->captured_by.store(nullptr);
    return record(*e, s);
  });
}

} // namespace

CUresult CUDAAPI cuEventRecord(CUevent hEvent, CUstream hStream) {
  call_arguments given{__func__, hEvent, hStream};
  return record_in(hEvent, hStream, 0);
}
CUresult CUDAAPI cuEventRecordWithFlags(CUevent hEvent, CUstream hStream,
                                        unsigned int flags) {
  call_arguments given{__func__, hEvent, hStream, flags};
  return record_in(hEvent, hStream, flags);
}

// -- host functions
// ----------------------------------------------------------------

CUresult CUDAAPI cuLaunchHostFunc(CUstream hStream, CUhostFn fn,
                                  void* userData) {
  call_arguments given{__func__, hStream, fn, userData};
  return in_stream(hStream, [&](stream& s) {
    if (fn == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    return s.is_captured() ? capture_work(s, host_work{{fn, userData}})
                           : host_calls().add(s, fn, userData);
  });
}

CUresult CUDAAPI cuStreamAddCallback(CUstream hStream,
                                     CUstreamCallback callback, void* userData,
                                     unsigned int flags) {
  call_arguments given{__func__, hStream, callback, userData, flags};
  return in_stream(hStream, [&](stream& s) {
    if (callback == nullptr || flags != 0)
      return CUDA_ERROR_INVALID_VALUE;
    return s.is_captured() ? refuse_in_capture(s)
                           : host_calls().add(s, hStream, callback, userData);
  });
}

// -- stream-ordered memory
// -----------------------------------------------------------

namespace {

/// Allocates in stream order. An allocation of 0 bytes is a null pointer, which
/// may be freed.
CUresult allocate_in_order(stream& s, pool& from, std::size_t bytes,
                           CUdeviceptr* out) {
  if (out == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (bytes == 0) {
    *out = 0;
    return CUDA_SUCCESS;
  }
  if (!s.is_captured())
    return allocate_from(s, from, bytes, *out);
  return from.on_host() ? CUDA_ERROR_NOT_SUPPORTED
                        : capture_allocation(s, from.device, bytes, *out);
}

} // namespace

CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr* dptr, size_t bytesize,
                                 CUstream hStream) {
  call_arguments given{__func__, dptr, bytesize, hStream};
  return in_stream(hStream, [&](stream& s) {
    return allocate_in_order(s, current_pool(s.owner.device), bytesize, dptr);
  });
}

CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr* dptr, size_t bytesize,
                                         CUmemoryPool pool_handle,
                                         CUstream hStream) {
  call_arguments given{__func__, dptr, bytesize, pool_handle, hStream};
  return in_stream(hStream, [&](stream& s) {
    auto* from = pools().find(pool_handle);
    return from == nullptr || from->imported
               ? CUDA_ERROR_INVALID_VALUE
               : allocate_in_order(s, *from, bytesize, dptr);
  });
}

CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
  call_arguments given{__func__, dptr, hStream};
  return in_stream(hStream, [&](stream& s) {
    if (dptr == 0)
      return CUDA_SUCCESS;
    return s.is_captured() ? capture_free(s, dptr) : free_in_order(s, dptr);
  });
}

// -- properties
// ----------------------------------------------------------------------

CUresult CUDAAPI cuStreamGetPriority(CUstream hStream, int* priority) {
  call_arguments given{__func__, hStream, priority};
  return in_stream(hStream, [&](stream& s) {
    if (priority == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *priority = s.priority;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamGetFlags(CUstream hStream, unsigned int* flags) {
  call_arguments given{__func__, hStream, flags};
  return in_stream(hStream, [&](stream& s) {
    if (flags == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *flags = s.flags;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamGetId(CUstream hStream, unsigned long long* streamId) {
  call_arguments given{__func__, hStream, streamId};
  return in_stream(hStream, [&](stream& s) {
    if (streamId == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *streamId = s.id;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamGetDevice(CUstream hStream, CUdevice* device) {
  call_arguments given{__func__, hStream, device};
  return in_stream(hStream, [&](stream& s) {
    if (device == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *device = s.owner.device;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamGetCtx(CUstream hStream, CUcontext* pctx) {
  call_arguments given{__func__, hStream, pctx};
  return in_stream(hStream, [&](stream& s) {
    if (pctx == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *pctx = s.within.handle;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamGetCtx_v2(CUstream hStream, CUcontext* pCtx,
                                   CUgreenCtx* pGreenCtx) {
  call_arguments given{__func__, hStream, pCtx, pGreenCtx};
  return in_stream(hStream, [&](stream& s) {
    if (pCtx == nullptr || pGreenCtx == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *pCtx = s.owner.handle;
    *pGreenCtx = green_handle_of(s.within);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamCopyAttributes(CUstream dst, CUstream src) {
  call_arguments given{__func__, dst, src};
  return in_stream(dst, [&](stream& s) {
    auto* from = find_stream(s.owner, src, per_thread);
    if (from == nullptr)
      return CUDA_ERROR_INVALID_HANDLE;
    copy_attributes(s, *from);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr,
                                      CUstreamAttrValue* value_out) {
  call_arguments given{__func__, hStream, attr, value_out};
  return in_stream(hStream, [&](stream& s) {
    if (value_out == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    CUstreamAttrValue value;
    std::memset(&value, 0, sizeof(value));
    auto code = get_attribute(s, attr, value);
    if (code == CUDA_SUCCESS)
      *value_out = value;
    return code;
  });
}

CUresult CUDAAPI cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr,
                                      const CUstreamAttrValue* value) {
  call_arguments given{__func__, hStream, attr, value};
  return in_stream(hStream, [&](stream& s) {
    return value == nullptr ? CUDA_ERROR_INVALID_VALUE
                            : set_attribute(s, attr, *value);
  });
}
