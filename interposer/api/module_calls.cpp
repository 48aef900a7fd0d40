// Entry points for modules.
#include "interposer/api/entry.hpp"

#include "interposer/code/image.hpp"
#include "interposer/code/image_file.hpp"
#include "interposer/code/jit_options.hpp"
#include "interposer/code/module.hpp"
#include "interposer/graph/capture.hpp"
#include "interposer/session/session.hpp"
#include "schema/base/cuda_fault.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include <strings.h>

using namespace vgpu::interposer;

namespace {

CUresult refuse(const vgpu::fault& why, jit_request& how) {
  log_line(log_level::info, why.what);
  how.fail(why.what);
  return cuda_code(why);
}

CUresult load_view(context& x, CUmodule* out,
                   const vgpu::result<image_view>& view, jit_request& how) {
  if (!view)
    return refuse(view.why(), how);
  auto settings = settings_of(*view, how.settings());
  if (!settings)
    return refuse(settings.why(), how);
  std::string said;
  auto loaded = load_module(x, view->bytes, nullptr, *settings, &said);
  how.finish();
  if (!loaded)
    return refuse(loaded.why(), how);
  how.inform(said);
  *out = (*loaded)->handle;
  return CUDA_SUCCESS;
}

CUresult load_data(context& x, CUmodule* out, const void* image,
                   jit_request& how) {
  return out == nullptr ? CUDA_ERROR_INVALID_VALUE
                        : load_view(x, out, view_image(image), how);
}

CUresult load_plain(CUmodule* out, const void* image) noexcept {
  return in_context([&](context& x) {
    jit_request none;
    return load_data(x, out, image, none);
  });
}

template <class Body>
CUresult with_module(CUmodule handle, const Body& body) noexcept {
  return in_context([&](context&) -> CUresult {
    auto* x = modules().find(handle);
    return x == nullptr ? CUDA_ERROR_INVALID_HANDLE : body(*x);
  });
}

} // namespace

CUresult CUDAAPI cuModuleLoad(CUmodule* out, const char* fname) {
  return in_context([&](context& x) {
    if (out == nullptr || fname == nullptr || *fname == '\0')
      return CUDA_ERROR_INVALID_VALUE;
    auto bytes = read_image_file(fname);
    if (!bytes)
      return cuda_code(bytes.why());
    jit_request none;
    return load_view(x, out, view_image(bytes->data(), bytes->size()), none);
  });
}

CUresult CUDAAPI cuModuleLoadData(CUmodule* out, const void* image) {
  return load_plain(out, image);
}

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule* out, const void* image,
                                    unsigned int numOptions,
                                    CUjit_option* options,
                                    void** optionValues) {
  return in_context([&](context& x) {
    jit_request how;
    if (auto code = how.take(jit_use::load, numOptions, options, optionValues);
        code != CUDA_SUCCESS)
      return code;
    return load_data(x, out, image, how);
  });
}

CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule* out, const void* fatCubin) {
  return load_plain(out, fatCubin);
}

CUresult CUDAAPI cuModuleUnload(CUmodule hmod) {
  return in_context([&](context&) {
    auto refused = check_unsafe_call();
    return refused == CUDA_SUCCESS ? unload_module(hmod) : refused;
  });
}

CUresult CUDAAPI cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  return guarded([&] {
    if (mode == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    const auto* text = std::getenv("CUDA_MODULE_LOADING");
    *mode = text != nullptr && ::strcasecmp(text, "EAGER") == 0
                ? CU_MODULE_EAGER_LOADING
                : CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod,
                                     const char* name) {
  return with_module(hmod, [&](module& m) {
    if (hfunc == nullptr || name == nullptr || *name == '\0')
      return CUDA_ERROR_INVALID_VALUE;
    auto found = m.by_name.find(std::string_view{name});
    if (found == m.by_name.end())
      return CUDA_ERROR_NOT_FOUND;
    *hfunc = found->second->handle;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuModuleGetFunctionCount(unsigned int* count, CUmodule mod) {
  return with_module(mod, [&](module& m) {
    if (count == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *count = static_cast<unsigned>(m.functions.size());
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuModuleEnumerateFunctions(CUfunction* out,
                                            unsigned int numFunctions,
                                            CUmodule mod) {
  return with_module(mod, [&](module& m) {
    if (out == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    auto n = std::min<std::size_t>(numFunctions, m.functions.size());
    for (std::size_t i = 0; i < n; ++i)
      out[i] = m.functions[i]->handle;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuModuleGetGlobal(CUdeviceptr* dptr, size_t* bytes,
                                   CUmodule hmod, const char* name) {
  return with_module(hmod, [&](module& m) {
    if (name == nullptr || (dptr == nullptr && bytes == nullptr))
      return CUDA_ERROR_INVALID_VALUE;
    auto found = m.globals.find(std::string_view{name});
    // A kernel's name is known, but no variable has it.
    if (found == m.globals.end())
      return m.by_name.contains(std::string_view{name})
                 ? CUDA_ERROR_INVALID_VALUE
                 : CUDA_ERROR_NOT_FOUND;
    if (dptr != nullptr)
      *dptr = found->second.address;
    if (bytes != nullptr)
      *bytes = found->second.bytes;
    return CUDA_SUCCESS;
  });
}
