// Entry points for streams and events that take no default stream.
#include "interposer/api/entry.hpp"

#include "interposer/graph/capture.hpp"
#include "interposer/session/own_thread.hpp"
#include "interposer/session/session.hpp"
#include "interposer/stream/stream_event.hpp"

using namespace vgpu::interposer;

namespace {

constexpr unsigned event_flags =
    CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

CUresult create_stream(CUstream* out, unsigned flags, int priority) noexcept {
  return in_context([&](context&) {
    if (out == nullptr || (flags & ~CU_STREAM_NON_BLOCKING) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    auto& within = *selected_context();
    // In a green context all streams are non-blocking.
    auto kind = within.is_green() ? unsigned{CU_STREAM_NON_BLOCKING} : flags;
    auto handle =
        streams().add(make_stream(within, kind, as_priority(priority)));
    *out = to_handle<CUstream>(handle);
    return CUDA_SUCCESS;
  });
}

CUresult destroy_stream(CUstream handle) noexcept {
  return by_handle([&] {
    // Streams of a destroyed green context stay forever (CUDA driver API,
    // cuGreenCtxDestroy).
    if (auto* x = streams().find(handle); x != nullptr && !x->within.active)
      return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    auto gone = streams().remove(handle);
    if (!gone)
      return CUDA_ERROR_INVALID_HANDLE;
    retire_stream(*gone);
    return CUDA_SUCCESS;
  });
}

CUresult destroy_event(CUevent handle) noexcept {
  return by_handle([&] {
    auto gone = events().remove(handle);
    if (!gone)
      return CUDA_ERROR_INVALID_HANDLE;
    retire_event(*gone);
    return CUDA_SUCCESS;
  });
}

template <class Body>
CUresult with_event(CUevent handle, const Body& body) noexcept {
  return by_handle([&]() -> CUresult {
    auto* x = events().find(handle);
    return x == nullptr ? CUDA_ERROR_INVALID_HANDLE : body(*x);
  });
}

CUresult elapsed_between(float* out, CUevent start, CUevent end) noexcept {
  return with_event(start, [&](event& from) -> CUresult {
    auto* to = events().find(end);
    if (to == nullptr)
      return CUDA_ERROR_INVALID_HANDLE;
    return out == nullptr ? CUDA_ERROR_INVALID_VALUE : elapsed(from, *to, *out);
  });
}

} // namespace

CUresult CUDAAPI cuStreamCreate(CUstream* phStream, unsigned int Flags) {
  call_arguments given{__func__, phStream, Flags};
  return create_stream(phStream, Flags, 0);
}
CUresult CUDAAPI cuStreamCreateWithPriority(CUstream* phStream,
                                            unsigned int flags, int priority) {
  call_arguments given{__func__, phStream, flags, priority};
  return create_stream(phStream, flags, priority);
}
CUresult CUDAAPI cuStreamDestroy(CUstream hStream) {
  call_arguments given{__func__, hStream};
  return destroy_stream(hStream);
}

CUresult CUDAAPI cuEventCreate(CUevent* phEvent, unsigned int Flags) {
  call_arguments given{__func__, phEvent, Flags};
  return in_context([&](context& x) {
    if (phEvent == nullptr || (Flags & ~event_flags) != 0 ||
        ((Flags & CU_EVENT_INTERPROCESS) != 0 &&
         (Flags & CU_EVENT_DISABLE_TIMING) == 0))
      return CUDA_ERROR_INVALID_VALUE;
    auto made = make_event(x, Flags);
    auto& it = *made;
    it.handle = to_handle<CUevent>(events().add(std::move(made)));
    *phEvent = it.handle;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuEventDestroy(CUevent hEvent) {
  call_arguments given{__func__, hEvent};
  return destroy_event(hEvent);
}

extern "C" {
CUresult stream_destroy_v1(CUstream hStream) VGPU_EXPORT_AS("cuStreamDestroy");
CUresult event_destroy_v1(CUevent hEvent) VGPU_EXPORT_AS("cuEventDestroy");
CUresult event_elapsed_v1(float* ms, CUevent start, CUevent end)
    VGPU_EXPORT_AS("cuEventElapsedTime");
}
CUresult stream_destroy_v1(CUstream hStream) {
  return destroy_stream(hStream);
}
CUresult event_destroy_v1(CUevent hEvent) {
  return destroy_event(hEvent);
}
CUresult event_elapsed_v1(float* ms, CUevent start, CUevent end) {
  return elapsed_between(ms, start, end);
}

CUresult CUDAAPI cuEventElapsedTime(float* pMilliseconds, CUevent hStart,
                                    CUevent hEnd) {
  return elapsed_between(pMilliseconds, hStart, hEnd);
}

CUresult CUDAAPI cuEventQuery(CUevent hEvent) {
  call_arguments given{__func__, hEvent};
  return with_event(hEvent, [](event& x) {
    return x.is_captured() ? refuse_captured(x) : query(x);
  });
}
CUresult CUDAAPI cuEventSynchronize(CUevent hEvent) {
  call_arguments given{__func__, hEvent};
  return with_event(hEvent, [](event& x) {
    if (runs_host_functions())
      return CUDA_ERROR_NOT_PERMITTED;
    return x.is_captured() ? refuse_captured(x) : synchronise(x);
  });
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return guarded([&] {
    if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL ||
        *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
      return CUDA_ERROR_INVALID_VALUE;
    std::swap(thread_capture_mode(), *mode);
    return CUDA_SUCCESS;
  });
}
