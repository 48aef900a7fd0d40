// Entry points for functions, kernels and their attributes.
#include "interposer/api/entry.hpp"

#include "interposer/code/module.hpp"
#include "interposer/session/session.hpp"

using namespace vgpu::interposer;

namespace {

/// Calls `body` with the function. The driver refuses a kernel in its place.
template <class Body>
CUresult with_function(CUfunction handle, const Body& body) noexcept {
  return by_handle([&]() -> CUresult {
    auto* known = functions().find(handle);
    return known == nullptr ? CUDA_ERROR_INVALID_HANDLE : body(*known->to);
  });
}

/// Calls `body` with the function, or with a kernel's function in the current
/// context.
template <class Body>
CUresult with_either(CUfunction handle, const Body& body) noexcept {
  return by_handle([&]() -> CUresult {
    if (auto* known = functions().find(handle); known != nullptr)
      return body(*known->to);
    auto* current = current_context();
    auto why = usable(current);
    auto* f =
        why == CUDA_SUCCESS ? find_function(handle, *current, why) : nullptr;
    return f == nullptr ? why : body(*f);
  });
}

/// Calls `body` with the kernel's function in the device's primary context.
template <class Body>
CUresult with_kernel_on(CUkernel handle, CUdevice dev,
                        const Body& body) noexcept {
  return guarded([&]() -> CUresult {
    auto* k = find_kernel(handle);
    if (k == nullptr)
      return CUDA_ERROR_INVALID_HANDLE;
    if (dev < 0 || static_cast<std::size_t>(dev) >=
                       process::the_session().devices().size())
      return CUDA_ERROR_INVALID_DEVICE;
    auto* in = current_context();
    if (in == nullptr || in->device != dev || !in->active.load())
      in = &contexts().primary(dev);
    auto why = CUDA_SUCCESS;
    auto* f = find_function(reinterpret_cast<CUfunction>(handle), *in, why);
    return f == nullptr ? why : body(*f);
  });
}

CUresult parameter_info(const function& f, std::size_t index,
                        std::size_t* offset, std::size_t* size) {
  if (offset == nullptr || index >= f.parameters.size())
    return CUDA_ERROR_INVALID_VALUE;
  *offset = f.parameters[index].offset;
  if (size != nullptr)
    *size = f.parameters[index].size;
  return CUDA_SUCCESS;
}

bool is_shared_config(CUsharedconfig x) {
  return x >= CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE &&
         x <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE;
}

bool is_cache_config(CUfunc_cache x) {
  return x >= CU_FUNC_CACHE_PREFER_NONE && x <= CU_FUNC_CACHE_PREFER_EQUAL;
}

} // namespace

// -- functions
// ---------------------------------------------------------------------

CUresult CUDAAPI cuFuncGetAttribute(int* pi, CUfunction_attribute attrib,
                                    CUfunction hfunc) {
  return with_function(hfunc, [&](function& f) {
    return pi == nullptr ? CUDA_ERROR_INVALID_VALUE
                         : get_attribute(f, attrib, *pi);
  });
}

CUresult CUDAAPI cuFuncSetAttribute(CUfunction hfunc,
                                    CUfunction_attribute attrib, int value) {
  return with_either(
      hfunc, [&](function& f) { return set_attribute(f, attrib, value); });
}

CUresult CUDAAPI cuFuncGetModule(CUmodule* hmod, CUfunction hfunc) {
  return with_function(hfunc, [&](function& f) {
    if (hmod == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *hmod = f.in->handle;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuFuncGetName(const char** name, CUfunction hfunc) {
  if (hfunc == nullptr)
    return guarded([] { return CUDA_ERROR_INVALID_VALUE; });
  return with_function(hfunc, [&](function& f) {
    if (name == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *name = f.name.c_str();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuFuncGetParamInfo(CUfunction func, size_t paramIndex,
                                    size_t* paramOffset, size_t* paramSize) {
  return with_function(func, [&](function& f) {
    return parameter_info(f, paramIndex, paramOffset, paramSize);
  });
}

CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config) {
  return with_function(hfunc, [&](function&) {
    return is_cache_config(config) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult CUDAAPI cuFuncSetSharedMemConfig(CUfunction hfunc,
                                          CUsharedconfig config) {
  return with_function(hfunc, [&](function&) {
    return is_shared_config(config) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult CUDAAPI cuFuncIsLoaded(CUfunctionLoadingState* state,
                                CUfunction func) {
  return with_either(func, [&](function&) {
    if (state == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuFuncLoad(CUfunction func) {
  return with_either(func, [](function&) { return CUDA_SUCCESS; });
}

// -- kernels
// -----------------------------------------------------------------------

CUresult CUDAAPI cuKernelGetFunction(CUfunction* pFunc, CUkernel handle) {
  auto either = reinterpret_cast<CUfunction>(handle);
  return with_either(either, [&](function& f) {
    // A function is no kernel.
    if (f.handle == either)
      return CUDA_ERROR_INVALID_HANDLE;
    if (pFunc == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *pFunc = f.handle;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuKernelGetLibrary(CUlibrary* pLib, CUkernel handle) {
  return guarded([&] {
    auto* k = find_kernel(handle);
    if (k == nullptr)
      return CUDA_ERROR_INVALID_HANDLE;
    if (pLib == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *pLib = k->of->handle;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuKernelGetName(const char** name, CUkernel handle) {
  return guarded([&] {
    if (name == nullptr || handle == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    auto* k = find_kernel(handle);
    if (k == nullptr)
      return CUDA_ERROR_INVALID_HANDLE;
    *name = k->name.c_str();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuKernelGetAttribute(int* pi, CUfunction_attribute attrib,
                                      CUkernel handle, CUdevice dev) {
  return with_kernel_on(handle, dev, [&](function& f) {
    return pi == nullptr ? CUDA_ERROR_INVALID_VALUE
                         : get_attribute(f, attrib, *pi);
  });
}

CUresult CUDAAPI cuKernelSetAttribute(CUfunction_attribute attrib, int val,
                                      CUkernel handle, CUdevice dev) {
  return with_kernel_on(
      handle, dev, [&](function& f) { return set_attribute(f, attrib, val); });
}

CUresult CUDAAPI cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache config,
                                        CUdevice dev) {
  return with_kernel_on(handle, dev, [&](function&) {
    return is_cache_config(config) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult CUDAAPI cuKernelGetParamInfo(CUkernel handle, size_t paramIndex,
                                      size_t* paramOffset, size_t* paramSize) {
  // Unlike the other queries of a kernel, it needs a context.
  return in_context([&](context& in) {
    return with_kernel_on(handle, in.device, [&](function& f) {
      return parameter_info(f, paramIndex, paramOffset, paramSize);
    });
  });
}
