// Entry points for green contexts, and for work in all streams of a context.
#include "interposer/api/entry.hpp"

#include "interposer/context/green_context.hpp"
#include "interposer/graph/capture.hpp"
#include "interposer/session/session.hpp"
#include "interposer/stream/stream_event.hpp"
#include "interposer/stream/stream_set.hpp"

using namespace vgpu::interposer;

namespace {

template <class Body>
CUresult with_green(CUgreenCtx handle, const Body& body) noexcept {
  return by_handle([&]() -> CUresult {
    auto* x = find_green_context(handle);
    return x == nullptr ? CUDA_ERROR_INVALID_CONTEXT : body(*x);
  });
}

/// Calls `body` with an event and the streams of a context that still exists.
template <class Body>
CUresult with_event(context& in, CUevent handle, const Body& body) {
  if (auto why = usable(&in); why != CUDA_SUCCESS)
    return why;
  if (auto why = check_whole_context(in); why != CUDA_SUCCESS)
    return why;
  auto* x = events().find(handle);
  return x == nullptr ? CUDA_ERROR_INVALID_HANDLE : body(streams_of(in), *x);
}

template <class Body>
CUresult with_context_event(CUcontext handle, CUevent event_handle,
                            const Body& body) noexcept {
  return by_handle([&]() -> CUresult {
    auto* x = contexts().find(handle);
    return x == nullptr ? CUDA_ERROR_INVALID_CONTEXT
                        : with_event(*x, event_handle, body);
  });
}

constexpr auto record_all = [](stream_set& in, event& x) {
  return in.record(x);
};
constexpr auto wait_in_all = [](stream_set& in, event& x) {
  if (!x.is_captured())
    return in.wait(x);
  (void)refuse_captured(x);
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
};

} // namespace

// -- resources
// -----------------------------------------------------------------

CUresult CUDAAPI cuDevSmResourceSplitByCount(
    CUdevResource* result, unsigned int* nbGroups, const CUdevResource* input,
    CUdevResource* remaining, unsigned int useFlags, unsigned int minCount) {
  return guarded([&] {
    return split(result, nbGroups, input, remaining, useFlags, minCount);
  });
}

CUresult CUDAAPI cuDevResourceGenerateDesc(CUdevResourceDesc* phDesc,
                                           CUdevResource* resources,
                                           unsigned int nbResources) {
  return guarded([&]() -> CUresult {
    if (phDesc == nullptr || resources == nullptr || nbResources == 0)
      return CUDA_ERROR_INVALID_VALUE;
    sm_part what;
    if (auto code = join({resources, nbResources}, what); code != CUDA_SUCCESS)
      return code;
    *phDesc = to_handle<CUdevResourceDesc>(
        resource_descriptors().add(std::make_unique<sm_part>(what)));
    return CUDA_SUCCESS;
  });
}

// -- contexts
// -----------------------------------------------------------------------

CUresult CUDAAPI cuGreenCtxCreate(CUgreenCtx* phCtx, CUdevResourceDesc desc,
                                  CUdevice dev, unsigned int flags) {
  return guarded([&]() -> CUresult {
    if (phCtx == nullptr || flags != CU_GREEN_CTX_DEFAULT_STREAM)
      return CUDA_ERROR_INVALID_VALUE;
    if (dev < 0 || static_cast<std::size_t>(dev) >= here().devices().size())
      return CUDA_ERROR_INVALID_DEVICE;
    // Without a descriptor, the context gets the whole device.
    auto whole =
        whole_device(dev, here().devices()[static_cast<unsigned>(dev)]);
    auto* what = desc == nullptr ? &whole : resource_descriptors().find(desc);
    if (what == nullptr || what->device != dev)
      return CUDA_ERROR_INVALID_VALUE;
    return create_green_context(*what, *phCtx);
  });
}

CUresult CUDAAPI cuGreenCtxDestroy(CUgreenCtx hCtx) {
  return by_handle([&]() -> CUresult {
    if (auto* x = find_green_context(hCtx); x != nullptr)
      return contexts().destroy(*x);
    // A thread keeps a destroyed context, whose handle it still knows.
    auto* left = selected_context();
    return left != nullptr && left->is_green() && green_handle_of(*left) == hCtx
               ? CUDA_ERROR_CONTEXT_IS_DESTROYED
               : CUDA_ERROR_INVALID_CONTEXT;
  });
}

CUresult CUDAAPI cuCtxFromGreenCtx(CUcontext* pContext, CUgreenCtx hCtx) {
  return with_green(hCtx, [&](context& x) {
    if (pContext == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *pContext = x.handle;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGreenCtxGetDevResource(CUgreenCtx hCtx,
                                          CUdevResource* resource,
                                          CUdevResourceType type) {
  return with_green(
      hCtx, [&](context& x) { return tell(x.green->what, type, resource); });
}

CUresult CUDAAPI cuGreenCtxGetId(CUgreenCtx greenCtx,
                                 unsigned long long* greenCtxId) {
  return by_handle([&]() -> CUresult {
    auto* x =
        greenCtx != nullptr ? find_green_context(greenCtx) : selected_context();
    if (x == nullptr || !x->is_green())
      return CUDA_ERROR_INVALID_CONTEXT;
    if (greenCtxId == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *greenCtxId = x->id.load();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGreenCtxStreamCreate(CUstream* phStream, CUgreenCtx greenCtx,
                                        unsigned int flags, int priority) {
  return with_green(greenCtx, [&](context& x) {
    if (phStream == nullptr || flags != CU_STREAM_NON_BLOCKING)
      return CUDA_ERROR_INVALID_VALUE;
    *phStream = to_handle<CUstream>(
        streams().add(make_stream(x, flags, as_priority(priority))));
    return CUDA_SUCCESS;
  });
}

// -- events of all of a context
// ------------------------------------------------------

CUresult CUDAAPI cuGreenCtxRecordEvent(CUgreenCtx hCtx, CUevent hEvent) {
  return with_green(
      hCtx, [&](context& x) { return with_event(x, hEvent, record_all); });
}
CUresult CUDAAPI cuGreenCtxWaitEvent(CUgreenCtx hCtx, CUevent hEvent) {
  return with_green(
      hCtx, [&](context& x) { return with_event(x, hEvent, wait_in_all); });
}
CUresult CUDAAPI cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent) {
  return with_context_event(hCtx, hEvent, record_all);
}
CUresult CUDAAPI cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent) {
  return with_context_event(hCtx, hEvent, wait_in_all);
}

CUresult CUDAAPI cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx* phCtx) {
  return guarded([&]() -> CUresult {
    stream* s = nullptr;
    if (auto code = find_usable_stream(hStream, false, s); code != CUDA_SUCCESS)
      return code;
    if (phCtx == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *phCtx = green_handle_of(s->within);
    return CUDA_SUCCESS;
  });
}
