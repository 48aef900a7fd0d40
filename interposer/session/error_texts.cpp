#include "interposer/api/entry.hpp"

#include "interposer/session/error_texts.hpp"

namespace vgpu::interposer {

const char* error_name(CUresult code) noexcept {
  switch (code) {
#define VGPU_ERROR(code, text)                                                 \
  case code:                                                                   \
    return #code;
#include "interposer/session/error_texts.def"
#undef VGPU_ERROR
  }
  return nullptr;
}

const char* error_text(CUresult code) noexcept {
  switch (code) {
#define VGPU_ERROR(code, text)                                                 \
  case code:                                                                   \
    return text;
#include "interposer/session/error_texts.def"
#undef VGPU_ERROR
  }
  return nullptr;
}

} // namespace vgpu::interposer

using namespace vgpu::interposer;

CUresult CUDAAPI cuGetErrorName(CUresult error, const char** pStr) {
  if (pStr == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *pStr = error_name(error);
  return *pStr == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetErrorString(CUresult error, const char** pStr) {
  if (pStr == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *pStr = error_text(error);
  return *pStr == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
