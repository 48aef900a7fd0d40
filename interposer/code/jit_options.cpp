#include "interposer/code/jit_options.hpp"

#include <cstdint>
#include <cstring>

namespace vgpu::interposer {

void jit_log::write(std::string_view text) const noexcept {
  if (text_ == nullptr || room_ == 0)
    return;
  auto bytes = text.copy(text_, room_ - 1);
  text_[bytes] = '\0';
  // As in the driver API, the value stands in the pointer's place.
  if (written_ != nullptr)
    *written_ = reinterpret_cast<void*>(bytes); // NOLINT: a number
}

CUresult take_jit_options(unsigned count, const CUjit_option* options,
                          void** values, jit_logs& out) noexcept {
  if (count != 0 && options == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] < 0 || options[i] >= CU_JIT_NUM_OPTIONS)
      return CUDA_ERROR_INVALID_VALUE;
    if (values == nullptr)
      continue;
    // The program passes the size of the buffer, and receives the number of
    // bytes written.
    auto size = [&](jit_log& of) {
      of.room_ = reinterpret_cast<std::uintptr_t>(values[i]) & UINT32_MAX;
      of.written_ = &values[i];
      values[i] = nullptr;
    };
    switch (options[i]) {
    case CU_JIT_INFO_LOG_BUFFER:
      out.info.text_ = static_cast<char*>(values[i]);
      break;
    case CU_JIT_ERROR_LOG_BUFFER:
      out.error.text_ = static_cast<char*>(values[i]);
      break;
    case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
      size(out.info);
      break;
    case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
      size(out.error);
      break;
    case CU_JIT_WALL_TIME: {
      float none = 0;
      std::memcpy(&values[i], &none, sizeof(none));
      break;
    }
    default:
      break;
    }
  }
  out.info.write({});
  out.error.write({});
  return CUDA_SUCCESS;
}

CUresult answer_jit_options(unsigned count, const CUjit_option* options,
                            void** values) noexcept {
  jit_logs unused;
  return take_jit_options(count, options, values, unused);
}

} // namespace vgpu::interposer
