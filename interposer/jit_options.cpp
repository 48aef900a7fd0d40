#include "interposer/jit_options.hpp"

#include <cstdint>
#include <cstring>

namespace vgpu::interposer {

CUresult answer_jit_options(unsigned count, const CUjit_option* options,
                            void** values) noexcept {
  if (count != 0 && options == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] < 0 || options[i] >= CU_JIT_NUM_OPTIONS)
      return CUDA_ERROR_INVALID_VALUE;
    if (values == nullptr)
      continue;
    switch (options[i]) {
    case CU_JIT_INFO_LOG_BUFFER:
    case CU_JIT_ERROR_LOG_BUFFER:
      if (values[i] != nullptr)
        *static_cast<char*>(values[i]) = '\0';
      break;
    case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
    case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
      // In: how large the buffer is; out: how much was written. By value in
      // the pointer's place, as the driver API has it.
      values[i] = nullptr;
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
  return CUDA_SUCCESS;
}

} // namespace vgpu::interposer
