#include "actors/worker/execute/copy_box.hpp"

#include <string>

namespace vgpu {

status audit_box(const dispatch_context& on, const call::box& box,
                 const call::extent& size) {
  auto bytes = span_of(box, size);
  if (!bytes)
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "a copy's pitch is smaller than its rows");
  if (*bytes == 0)
    return {};
  for (auto& slot : on.session.devices)
    if (slot.state.holds(box.address, *bytes))
      return {};
  if (on.session.host.holds(box.address, *bytes))
    return {};
  return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                    "a copy of " + std::to_string(*bytes) + " bytes at " +
                        std::to_string(box.address) +
                        " reaches beyond the allocated memory");
}

} // namespace vgpu
