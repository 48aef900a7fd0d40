#include "interposer/cupti/cupti_part.hpp"

#include "interposer/session/process.hpp"

#include <exception>
#include <utility>

namespace vgpu::interposer {

void cupti_part::session_began() noexcept {
  try {
    std::lock_guard guard{mutex_};
    if (!std::exchange(file_began_, true))
      file.begin_as_asked();
    if (tool_wants_ && !log.wants(activity_reader::tool))
      log.begin(activity_reader::tool);
  } catch (const std::exception& e) {
    report_exception(e.what());
  }
}

CUresult cupti_part::want_for_tool(bool on) {
  std::lock_guard guard{mutex_};
  tool_wants_ = on;
  if (process::now() != phase::running)
    return CUDA_SUCCESS;
  if (on && !log.wants(activity_reader::tool))
    log.begin(activity_reader::tool);
  else if (!on)
    log.end(activity_reader::tool);
  return CUDA_SUCCESS;
}

} // namespace vgpu::interposer
