#include "interposer/refusal.hpp"

#include "interposer/process.hpp"

#include <string>

namespace vgpu::interposer {

int refuse(const char* symbol, const char* why, told_once& told) noexcept {
  if (logs(log_level::error) && !told.exchange(true)) {
    try {
      log_line(log_level::error,
               std::string{symbol} + " is not supported (" + why + ")");
    } catch (const std::exception&) {
      // A line of the log is the least loss.
    }
  }
  auto now = process::phase_error();
  return now != CUDA_SUCCESS ? now : CUDA_ERROR_NOT_SUPPORTED;
}

} // namespace vgpu::interposer
