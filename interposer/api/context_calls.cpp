// Entry points for contexts.
#include "interposer/api/entry.hpp"

#include "interposer/context/green_context.hpp"
#include "interposer/context/peers.hpp"
#include "interposer/graph/capture.hpp"
#include "interposer/session/session.hpp"
#include "interposer/stream/stream_set.hpp"

#include <algorithm>
#include <bit>

using namespace vgpu::interposer;

namespace {

/// Tells whether a context may have these flags. Of the ways to wait, it has
/// one at most.
bool are_flags(unsigned x) {
  auto waits = x & CU_CTX_SCHED_MASK;
  return (x & ~unsigned{CU_CTX_FLAGS_MASK}) == 0 &&
         (waits == 0 || std::has_single_bit(waits));
}

bool is_device(CUdevice dev) {
  return dev >= 0 && static_cast<std::size_t>(dev) <
                         process::the_session().devices().size();
}

const device_facts& facts_of(const context& x) {
  return here().devices().at(static_cast<std::size_t>(x.device));
}

/// Tells whether devices since Hopper, or contexts without graphics, lack this
/// limit.
bool is_unsupported(CUlimit limit, const context& x) {
  return limit == CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED ||
         (limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH &&
          facts_of(x).value_of(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) >=
              9);
}

/// Returns the limit's set value or, for shared memory, the device's if none
/// was set. A device clamps the part of its cache that persists.
std::size_t value_of(CUlimit limit, const context& x) {
  auto set = x.limits[limit].load();
  if (limit == CU_LIMIT_PERSISTING_L2_CACHE_SIZE)
    return std::min(set,
                    static_cast<std::size_t>(facts_of(x).value_of(
                        CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE)));
  if (set != 0 || limit != CU_LIMIT_SHMEM_SIZE)
    return set;
  return static_cast<std::size_t>(facts_of(x).value_of(
      CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
}

template <class Body>
CUresult with_primary(CUdevice dev, const Body& body) noexcept {
  return guarded([&]() -> CUresult {
    if (!is_device(dev))
      return CUDA_ERROR_INVALID_DEVICE;
    return body(contexts().primary(dev));
  });
}

/// Calls `body` with the context of the handle, or with the current one for
/// null.
template <class Body>
CUresult with_selected(CUcontext handle, const Body& body) noexcept {
  return guarded([&]() -> CUresult {
    auto* x = handle == nullptr ? selected_context() : contexts().find(handle);
    return x == nullptr ? CUDA_ERROR_INVALID_CONTEXT : body(*x);
  });
}

/// Calls `body` with the root of the context of the handle, or of the current
/// one for null.
template <class Body>
CUresult with_context(CUcontext handle, const Body& body) noexcept {
  return with_selected(
      handle, [&](context& x) { return body(x.active.load() ? x.root : x); });
}

CUresult create(CUcontext* out, unsigned flags, CUdevice dev) noexcept {
  return guarded([&]() -> CUresult {
    if (out == nullptr || !are_flags(flags))
      return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(dev))
      return CUDA_ERROR_INVALID_DEVICE;
    // A process whose session failed gets no context any more.
    if (auto code = process::the_session().sticky(); code != CUDA_SUCCESS)
      return code;
    auto* made = contexts().create(dev, flags);
    push_context(made);
    *out = made->handle;
    return CUDA_SUCCESS;
  });
}

/// Lets the context's kernels end and writes out what they print, before the
/// program ends the context by a call. A context that ends with its last
/// release does not wait.
void finish_work(context& x) {
  if (x.active.load())
    streams_of(x).finish();
}

CUresult destroy(CUcontext handle) noexcept {
  return guarded([&]() -> CUresult {
    auto* x = contexts().find(handle);
    if (x == nullptr || x->is_green())
      return CUDA_ERROR_INVALID_CONTEXT;
    if (!x->primary)
      finish_work(*x);
    if (auto code = contexts().destroy(*x); code != CUDA_SUCCESS)
      return code;
    if (selected_context() == x)
      pop_context();
    return CUDA_SUCCESS;
  });
}

CUresult push(CUcontext handle) noexcept {
  return guarded([&]() -> CUresult {
    auto* x = contexts().find(handle);
    if (x == nullptr)
      return CUDA_ERROR_INVALID_CONTEXT;
    push_context(x);
    return CUDA_SUCCESS;
  });
}

CUresult pop(CUcontext* out) noexcept {
  return guarded([&]() -> CUresult {
    auto* x = pop_context();
    if (x == nullptr)
      return CUDA_ERROR_INVALID_CONTEXT;
    if (out != nullptr)
      *out = x->handle;
    return CUDA_SUCCESS;
  });
}

CUresult release_primary(CUdevice dev) noexcept {
  return with_primary(dev, [](context& x) { return contexts().release(x); });
}

CUresult reset_primary(CUdevice dev) noexcept {
  return with_primary(dev, [](context& x) {
    finish_work(x);
    return contexts().reset_primary(x);
  });
}

CUresult set_primary_flags(CUdevice dev, unsigned flags) noexcept {
  return with_primary(dev, [&](context& x) {
    if (!are_flags(flags) || (flags & CU_CTX_MAP_HOST) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    x.flags = flags;
    return CUDA_SUCCESS;
  });
}

/// Returns the context of the handle for peer access. A green context counts as
/// its root.
context* peer_of(CUcontext handle) {
  auto* x = contexts().find(handle);
  return x == nullptr ? nullptr : &x->root;
}

CUresult synchronise_context(context& x) {
  if (auto why = usable(&x); why != CUDA_SUCCESS)
    return why;
  if (auto why = check_whole_context(x); why != CUDA_SUCCESS)
    return why;
  return process::the_session().synchronise(x.device_index());
}

} // namespace

// -- primary contexts
// ------------------------------------------------------------

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) {
  return with_primary(dev, [&](context& x) {
    if (pctx == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *pctx = x.handle;
    return contexts().retain(x);
  });
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice dev) {
  return release_primary(dev);
}
CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice dev) {
  return reset_primary(dev);
}
CUresult CUDAAPI cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
  return set_primary_flags(dev, flags);
}

extern "C" {
CUresult primary_release_v1(CUdevice dev)
    VGPU_EXPORT_AS("cuDevicePrimaryCtxRelease");
CUresult primary_reset_v1(CUdevice dev)
    VGPU_EXPORT_AS("cuDevicePrimaryCtxReset");
CUresult primary_set_flags_v1(CUdevice dev, unsigned int flags)
    VGPU_EXPORT_AS("cuDevicePrimaryCtxSetFlags");
}
CUresult primary_release_v1(CUdevice dev) {
  return release_primary(dev);
}
CUresult primary_reset_v1(CUdevice dev) {
  return reset_primary(dev);
}
CUresult primary_set_flags_v1(CUdevice dev, unsigned int flags) {
  return set_primary_flags(dev, flags);
}

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int* flags,
                                            int* active) {
  return with_primary(dev, [&](context& x) {
    if (flags == nullptr || active == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *flags = x.flags.load();
    *active = x.active.load() ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

// -- created contexts
// ------------------------------------------------------------

CUresult CUDAAPI cuCtxCreate_v4(CUcontext* pctx, CUctxCreateParams* parameters,
                                unsigned int flags, CUdevice dev) {
  if (parameters != nullptr && (parameters->numExecAffinityParams != 0 ||
                                parameters->cigParams != nullptr))
    return guarded([] { return CUDA_ERROR_NOT_SUPPORTED; });
  return create(pctx, flags, dev);
}

extern "C" {
CUresult ctx_create_v1(CUcontext* pctx, unsigned int flags, CUdevice dev)
    VGPU_EXPORT_AS("cuCtxCreate");
CUresult ctx_create_v2(CUcontext* pctx, unsigned int flags, CUdevice dev)
    VGPU_EXPORT_AS("cuCtxCreate_v2");
CUresult ctx_create_v3(CUcontext* pctx, CUexecAffinityParam* parameters,
                       int count, unsigned int flags, CUdevice dev)
    VGPU_EXPORT_AS("cuCtxCreate_v3");
CUresult ctx_destroy_v1(CUcontext ctx) VGPU_EXPORT_AS("cuCtxDestroy");
CUresult ctx_push_v1(CUcontext ctx) VGPU_EXPORT_AS("cuCtxPushCurrent");
CUresult ctx_pop_v1(CUcontext* pctx) VGPU_EXPORT_AS("cuCtxPopCurrent");
}
CUresult ctx_create_v1(CUcontext* pctx, unsigned int flags, CUdevice dev) {
  return create(pctx, flags, dev);
}
CUresult ctx_create_v2(CUcontext* pctx, unsigned int flags, CUdevice dev) {
  return create(pctx, flags, dev);
}
CUresult ctx_create_v3(CUcontext* pctx, CUexecAffinityParam*, int count,
                       unsigned int flags, CUdevice dev) {
  if (count != 0)
    return guarded([] { return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY; });
  return create(pctx, flags, dev);
}
CUresult ctx_destroy_v1(CUcontext ctx) {
  return destroy(ctx);
}
CUresult ctx_push_v1(CUcontext ctx) {
  return push(ctx);
}
CUresult ctx_pop_v1(CUcontext* pctx) {
  return pop(pctx);
}

CUresult CUDAAPI cuCtxDestroy(CUcontext ctx) {
  return destroy(ctx);
}

CUresult CUDAAPI cuCtxAttach(CUcontext* pctx, unsigned int flags) {
  return in_context([&](context&) {
    if (pctx == nullptr || flags != 0)
      return CUDA_ERROR_INVALID_VALUE;
    auto& x = *selected_context();
    x.attached.fetch_add(1);
    *pctx = x.handle;
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuCtxDetach(CUcontext ctx) {
  auto* x = selected_context();
  if (x != nullptr && x->handle == ctx)
    for (auto n = x->attached.load(); n != 0;)
      if (x->attached.compare_exchange_weak(n, n - 1))
        return guarded([] { return CUDA_SUCCESS; });
  return destroy(ctx);
}

// -- the calling thread's context
// --------------------------------------------------

CUresult CUDAAPI cuCtxPushCurrent(CUcontext ctx) {
  return push(ctx);
}
CUresult CUDAAPI cuCtxPopCurrent(CUcontext* pctx) {
  return pop(pctx);
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext ctx) {
  return guarded([&]() -> CUresult {
    auto* x = ctx == nullptr ? nullptr : contexts().find(ctx);
    if (x == nullptr && ctx != nullptr)
      return CUDA_ERROR_INVALID_CONTEXT;
    set_current_context(x);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext* pctx) {
  return guarded([&] {
    if (pctx == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    auto* x = selected_context();
    *pctx = x == nullptr ? nullptr : x->handle;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice* device) {
  return guarded([&] {
    auto* x = current_context();
    if (x == nullptr)
      return CUDA_ERROR_INVALID_CONTEXT;
    if (device == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *device = x->device;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxGetDevice_v2(CUdevice* device, CUcontext ctx) {
  return with_context(ctx, [&](context& x) {
    if (device == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *device = x.device;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxSynchronize(void) {
  call_arguments given{__func__};
  return in_context([](context& x) { return synchronise_context(x); });
}
CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext ctx) {
  call_arguments given{__func__, ctx};
  return with_context(ctx, [](context& x) { return synchronise_context(x); });
}

// -- properties of a context
// -------------------------------------------------------

CUresult CUDAAPI cuCtxGetFlags(unsigned int* flags) {
  return in_context([&](context& x) {
    if (flags == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    // Each context can map memory of the host.
    *flags = x.flags.load() | CU_CTX_MAP_HOST;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxSetFlags(unsigned int flags) {
  return in_context([&](context& x) {
    if (!are_flags(flags))
      return CUDA_ERROR_INVALID_VALUE;
    x.flags = flags;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxGetId(CUcontext ctx, unsigned long long* ctxId) {
  return with_selected(ctx, [&](context& x) {
    if (ctxId == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    if (!x.active.load())
      return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *ctxId = x.id.load();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxGetApiVersion(CUcontext ctx, unsigned int* version) {
  return with_context(ctx, [&](context&) {
    if (version == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *version = 3020;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxGetLimit(size_t* pvalue, CUlimit limit) {
  return in_context([&](context& x) {
    if (pvalue == nullptr || limit < 0 || limit >= CU_LIMIT_MAX)
      return CUDA_ERROR_INVALID_VALUE;
    if (is_unsupported(limit, x))
      return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *pvalue = value_of(limit, x);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value) {
  return in_context([&](context& x) {
    // A thread's stack is at most 512 KiB of local memory.
    constexpr std::size_t most_stack = std::size_t{512} << 10;
    if (limit < 0 || limit >= CU_LIMIT_MAX ||
        (limit == CU_LIMIT_STACK_SIZE && value > most_stack))
      return CUDA_ERROR_INVALID_VALUE;
    if (is_unsupported(limit, x))
      return CUDA_ERROR_UNSUPPORTED_LIMIT;
    return contexts().set_limit(x, limit, value);
  });
}

CUresult CUDAAPI cuCtxGetDevResource(CUcontext hCtx, CUdevResource* resource,
                                     CUdevResourceType type) {
  if (hCtx == nullptr)
    return guarded([] { return CUDA_ERROR_INVALID_CONTEXT; });
  return with_selected(hCtx, [&](context& x) {
    auto what =
        x.is_green() ? x.green->what : whole_device(x.device, facts_of(x));
    return tell(what, type, resource);
  });
}

CUresult CUDAAPI cuCtxGetCacheConfig(CUfunc_cache* pconfig) {
  return in_context([&](context& x) {
    if (pconfig == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *pconfig = static_cast<CUfunc_cache>(x.cache_config.load());
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxSetCacheConfig(CUfunc_cache config) {
  return in_context([&](context& x) {
    if (config < CU_FUNC_CACHE_PREFER_NONE ||
        config > CU_FUNC_CACHE_PREFER_EQUAL)
      return CUDA_ERROR_INVALID_VALUE;
    x.cache_config = config;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxGetSharedMemConfig(CUsharedconfig* pConfig) {
  return in_context([&](context&) {
    if (pConfig == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    // The banks of all devices since Maxwell have this size.
    *pConfig = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxSetSharedMemConfig(CUsharedconfig config) {
  return in_context([&](context&) {
    return config < CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE ||
                   config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int* leastPriority,
                                             int* greatestPriority) {
  return in_context([&](context&) {
    if (leastPriority != nullptr)
      *leastPriority = 0;
    if (greatestPriority != nullptr)
      *greatestPriority = greatest_priority;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxGetExecAffinity(CUexecAffinityParam* parameter,
                                      CUexecAffinityType) {
  return in_context([&](context&) {
    return parameter == nullptr ? CUDA_ERROR_INVALID_VALUE
                                : CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  });
}

CUresult CUDAAPI cuCtxResetPersistingL2Cache(void) {
  return in_context([](context& x) {
    process::the_session().send(vgpu::call::cache_reset{}, x.device_index());
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peerContext,
                                       unsigned int flags) {
  return in_context([&](context& x) {
    auto* peer = peer_of(peerContext);
    if (peer == nullptr)
      return CUDA_ERROR_INVALID_CONTEXT;
    if (flags != 0)
      return CUDA_ERROR_INVALID_VALUE;
    // As in driver 580, and unlike the documentation.
    if (peer == &x)
      return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    const auto& all = process::the_session().devices();
    if (!can_reach(all[x.device_index()], all[peer->device_index()]))
      return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    return peers().add(x, *peer) ? CUDA_SUCCESS
                                 : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  });
}

CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peerContext) {
  return in_context([&](context& x) {
    auto* peer = peer_of(peerContext);
    if (peer == nullptr)
      return CUDA_ERROR_INVALID_CONTEXT;
    return peers().remove(x, *peer) ? CUDA_SUCCESS
                                    : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  });
}
