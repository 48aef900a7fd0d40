#include "interposer/session/refusal.hpp"

#include "interposer/session/driver_log.hpp"
#include "interposer/session/process.hpp"

#include <string>

namespace vgpu::interposer {

int refuse(const char* symbol, const char* why, logged_once& logged) noexcept {
  auto now = process::phase_error();
  try {
    auto text = std::string{symbol} + " is not supported (" + why + ")";
    if (logs(log_level::error) && !logged.exchange(true))
      log_line(log_level::error, text);
    if (now == CUDA_SUCCESS) {
      the_driver_log().add(CU_LOG_LEVEL_ERROR, text);
      the_driver_log().add(CU_LOG_LEVEL_ERROR,
                           "Returning 801 (CUDA_ERROR_NOT_SUPPORTED) from " +
                               std::string{symbol});
    }
  } catch (const std::exception&) {
    // Memory is short, so the message is dropped.
  }
  return now != CUDA_SUCCESS ? now : CUDA_ERROR_NOT_SUPPORTED;
}

} // namespace vgpu::interposer
