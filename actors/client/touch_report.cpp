#include "actors/client/touch_report.hpp"

#include <string>

namespace vgpu {

void touch_report::tell() {
  // The program writes this word, and may write anything there.
  auto now = static_cast<fault_service>(opened_.header().managed_faults.load());
  auto text = to_text(now);
  if (now == told_ || text.empty())
    return;
  told_ = now;
  reports_.tell_event("managed-memory", reports_.program() +
                                            " touches of managed memory are " +
                                            std::string{text});
}

} // namespace vgpu
