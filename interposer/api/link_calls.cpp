// Entry points for linking at run time.
#include "interposer/api/entry.hpp"

#include "interposer/code/image_file.hpp"
#include "interposer/code/linker.hpp"
#include "schema/base/cuda_fault.hpp"

using namespace vgpu::interposer;

namespace {

CUresult create(unsigned count, CUjit_option* options, void** values,
                CUlinkState* out) noexcept {
  return in_context([&](context& x) -> CUresult {
    if (out == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    jit_request how;
    if (auto code = how.take(jit_use::link, count, options, values);
        code != CUDA_SUCCESS)
      return code;
    *out = add_link(std::make_unique<link_state>(x, how));
    return CUDA_SUCCESS;
  });
}

template <class Body>
CUresult with_link(CUlinkState handle, const Body& body) noexcept {
  return in_context([&](context&) -> CUresult {
    auto* x = find_link(handle);
    return x == nullptr ? CUDA_ERROR_INVALID_HANDLE : body(*x);
  });
}

/// Adds a part to a link.
CUresult add_data(CUlinkState handle, CUjitInputType type, const void* data,
                  std::size_t bytes, const char* name, unsigned count,
                  CUjit_option* options, void** values) noexcept {
  return with_link(handle, [&](link_state& x) -> CUresult {
    jit_request own;
    if (auto code = own.take(jit_use::link, count, options, values);
        code != CUDA_SUCCESS)
      return code;
    return x.add(type, {static_cast<const std::byte*>(data), bytes}, name, own);
  });
}

CUresult add_file(CUlinkState handle, CUjitInputType type, const char* path,
                  unsigned count, CUjit_option* options,
                  void** values) noexcept {
  return with_link(handle, [&](link_state& x) -> CUresult {
    if (path == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    jit_request own;
    if (auto code = own.take(jit_use::link, count, options, values);
        code != CUDA_SUCCESS)
      return code;
    auto bytes = read_image_file(path);
    return bytes ? x.add(type, *bytes, path, own) : cuda_code(bytes.why());
  });
}

} // namespace

CUresult CUDAAPI cuLinkCreate(unsigned int numOptions, CUjit_option* options,
                              void** optionValues, CUlinkState* stateOut) {
  return create(numOptions, options, optionValues, stateOut);
}

CUresult CUDAAPI cuLinkAddData(CUlinkState state, CUjitInputType type,
                               void* data, size_t size, const char* name,
                               unsigned int numOptions, CUjit_option* options,
                               void** optionValues) {
  return add_data(state, type, data, size, name, numOptions, options,
                  optionValues);
}

CUresult CUDAAPI cuLinkAddFile(CUlinkState state, CUjitInputType type,
                               const char* path, unsigned int numOptions,
                               CUjit_option* options, void** optionValues) {
  return add_file(state, type, path, numOptions, options, optionValues);
}

extern "C" {
CUresult link_create_v1(unsigned count, CUjit_option* options, void** values,
                        CUlinkState* out) VGPU_EXPORT_AS("cuLinkCreate");
CUresult link_add_data_v1(CUlinkState state, CUjitInputType type, void* data,
                          size_t bytes, const char* name, unsigned count,
                          CUjit_option* options, void** values)
    VGPU_EXPORT_AS("cuLinkAddData");
CUresult link_add_file_v1(CUlinkState state, CUjitInputType type,
                          const char* path, unsigned count,
                          CUjit_option* options, void** values)
    VGPU_EXPORT_AS("cuLinkAddFile");
}
CUresult link_create_v1(unsigned count, CUjit_option* options, void** values,
                        CUlinkState* out) {
  return create(count, options, values, out);
}
CUresult link_add_data_v1(CUlinkState state, CUjitInputType type, void* data,
                          size_t bytes, const char* name, unsigned count,
                          CUjit_option* options, void** values) {
  return add_data(state, type, data, bytes, name, count, options, values);
}
CUresult link_add_file_v1(CUlinkState state, CUjitInputType type,
                          const char* path, unsigned count,
                          CUjit_option* options, void** values) {
  return add_file(state, type, path, count, options, values);
}

CUresult CUDAAPI cuLinkComplete(CUlinkState state, void** cubinOut,
                                size_t* sizeOut) {
  return with_link(state, [&](link_state& x) -> CUresult {
    if (cubinOut == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    std::span<const std::byte> image;
    if (auto code = x.complete(image); code != CUDA_SUCCESS)
      return code;
    // The API has no const here.
    *cubinOut = const_cast<std::byte*>(image.data());
    if (sizeOut != nullptr)
      *sizeOut = image.size();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuLinkDestroy(CUlinkState state) {
  return guarded([&] {
    return remove_link(state) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  });
}
