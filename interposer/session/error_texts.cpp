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
