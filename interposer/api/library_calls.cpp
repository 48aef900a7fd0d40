// Entry points for libraries and their kernels.
#include "interposer/api/entry.hpp"

#include "interposer/code/image.hpp"
#include "interposer/code/image_file.hpp"
#include "interposer/code/jit_options.hpp"
#include "interposer/code/module.hpp"
#include "interposer/session/session.hpp"
#include "schema/base/cuda_fault.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

using namespace vgpu::interposer;

namespace {

/// Copies the image. Its first use loads it, and refuses it if it is no image.
CUresult load(CUlibrary* out, const vgpu::result<image_view>& view,
              jit_request& how) {
  auto made = std::make_unique<library>();
  if (view) {
    auto settings = settings_of(*view, how.settings());
    if (!settings)
      return cuda_code(settings.why());
    made->image.assign(view->bytes.begin(), view->bytes.end());
    made->settings = std::move(*settings);
  } else {
    made->broken = cuda_code(view.why());
  }
  how.finish();
  auto* x = made.get();
  x->handle = to_handle<CUlibrary>(libraries().add(std::move(made)));
  *out = x->handle;
  return CUDA_SUCCESS;
}

template <class Body>
CUresult with_library(CUlibrary handle, const Body& body) noexcept {
  return guarded([&]() -> CUresult {
    auto* x = libraries().find(handle);
    if (x == nullptr)
      return CUDA_ERROR_INVALID_HANDLE;
    if (auto code = process::the_session().sticky(); code != CUDA_SUCCESS)
      return code;
    return body(*x);
  });
}

template <class Body>
CUresult with_instance(CUlibrary handle, const Body& body) noexcept {
  return with_library(handle, [&](library& x) -> CUresult {
    auto* in = current_context();
    if (auto why = usable(in); why != CUDA_SUCCESS)
      return why;
    auto got = instance(x, *in);
    return got ? body(**got) : cuda_code(got.why());
  });
}

CUresult find_global(module& m, const char* name, bool managed,
                     CUdeviceptr* dptr, size_t* bytes) {
  auto found = m.globals.find(std::string_view{name});
  if (found == m.globals.end() || (managed && !found->second.managed))
    return CUDA_ERROR_NOT_FOUND;
  // The program will dereference the address.
  if (managed && !found->second.reachable)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (dptr != nullptr)
    *dptr = found->second.address;
  if (bytes != nullptr)
    *bytes = found->second.bytes;
  return CUDA_SUCCESS;
}

/// Checks a library's options. Only one is a hint for an image in memory, and
/// none is for a file.
CUresult check_options(unsigned count, const CUlibraryOption* options,
                       bool of_file) {
  if (count != 0 && options == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    // The program may pass any number.
    int option = 0;
    std::memcpy(&option, options + i, sizeof(option));
    if (option < 0 || option >= CU_LIBRARY_NUM_OPTIONS ||
        (option == CU_LIBRARY_BINARY_IS_PRESERVED && of_file))
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

} // namespace

CUresult CUDAAPI cuLibraryLoadData(CUlibrary* out, const void* code,
                                   CUjit_option* jitOptions,
                                   void** jitOptionsValues,
                                   unsigned int numJitOptions,
                                   CUlibraryOption* libraryOptions, void**,
                                   unsigned int numLibraryOptions) {
  return guarded([&] {
    if (out == nullptr || code == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    if (auto bad = check_options(numLibraryOptions, libraryOptions, false);
        bad != CUDA_SUCCESS)
      return bad;
    jit_request how;
    if (auto bad = how.take(jit_use::load, numJitOptions, jitOptions,
                            jitOptionsValues);
        bad != CUDA_SUCCESS)
      return bad;
    return load(out, view_image(code), how);
  });
}

CUresult CUDAAPI cuLibraryLoadFromFile(CUlibrary* out, const char* fileName,
                                       CUjit_option* jitOptions,
                                       void** jitOptionsValues,
                                       unsigned int numJitOptions,
                                       CUlibraryOption* libraryOptions, void**,
                                       unsigned int numLibraryOptions) {
  return guarded([&] {
    if (out == nullptr || fileName == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    jit_request how;
    if (auto bad = how.take(jit_use::load, numJitOptions, jitOptions,
                            jitOptionsValues);
        bad != CUDA_SUCCESS)
      return bad;
    // The driver reads the file before it checks the library's options.
    auto bytes = read_image_file(fileName);
    if (!bytes)
      return cuda_code(bytes.why());
    if (auto bad = check_options(numLibraryOptions, libraryOptions, true);
        bad != CUDA_SUCCESS)
      return bad;
    return load(out, view_image(bytes->data(), bytes->size()), how);
  });
}

CUresult CUDAAPI cuLibraryUnload(CUlibrary handle) {
  return guarded([&] { return unload_library(handle); });
}

CUresult CUDAAPI cuLibraryGetKernel(CUkernel* pKernel, CUlibrary handle,
                                    const char* name) {
  return with_library(handle, [&](library& x) {
    if (pKernel == nullptr || name == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    if (auto code = know_kernels(x); code != CUDA_SUCCESS)
      return code;
    auto found = x.by_name.find(std::string_view{name});
    if (found == x.by_name.end())
      return CUDA_ERROR_NOT_FOUND;
    *pKernel = found->second->handle;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuLibraryGetKernelCount(unsigned int* count, CUlibrary lib) {
  return with_library(lib, [&](library& x) {
    if (count == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    if (auto code = know_kernels(x); code != CUDA_SUCCESS)
      return code;
    *count = static_cast<unsigned>(x.kernels.size());
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuLibraryEnumerateKernels(CUkernel* out,
                                           unsigned int numKernels,
                                           CUlibrary lib) {
  return with_library(lib, [&](library& x) {
    if (out == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    if (auto code = know_kernels(x); code != CUDA_SUCCESS)
      return code;
    auto n = std::min<std::size_t>(numKernels, x.kernels.size());
    for (std::size_t i = 0; i < n; ++i)
      out[i] = x.kernels[i]->handle;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuLibraryGetModule(CUmodule* pMod, CUlibrary handle) {
  return with_instance(handle, [&](module& m) {
    if (pMod == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *pMod = m.handle;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuLibraryGetGlobal(CUdeviceptr* dptr, size_t* bytes,
                                    CUlibrary handle, const char* name) {
  return with_instance(handle, [&](module& m) {
    if (name == nullptr || (dptr == nullptr && bytes == nullptr))
      return CUDA_ERROR_INVALID_VALUE;
    return find_global(m, name, false, dptr, bytes);
  });
}

CUresult CUDAAPI cuLibraryGetManaged(CUdeviceptr* dptr, size_t* bytes,
                                     CUlibrary handle, const char* name) {
  // It needs no context, because runtimes ask for it right after the library's
  // load.
  return with_library(handle, [&](library& x) -> CUresult {
    if (name == nullptr || (dptr == nullptr && bytes == nullptr))
      return CUDA_ERROR_INVALID_VALUE;
    auto got = any_instance(x);
    return got ? find_global(**got, name, true, dptr, bytes)
               : cuda_code(got.why());
  });
}

CUresult CUDAAPI cuLibraryGetUnifiedFunction(void**, CUlibrary handle,
                                             const char*) {
  // Only a library with a table of host functions has such pointers, and no
  // library has one: the option that gives it is a hint, which this ignores.
  return with_library(handle,
                      [](library&) { return CUDA_ERROR_INVALID_VALUE; });
}
