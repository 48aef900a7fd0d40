#include "policies/lifecycle/attention.hpp"

#include <algorithm>

namespace vgpu::policy {

void attention::attend(time_point now) noexcept {
  auto gap = std::max(now - real_, duration{0});
  real_ = std::max(real_, now);
  attended_ += std::min(gap, step_);
  if (gap > 2 * step_)
    settled_at_ = attended_ + settles_;
}

time_point attention::due(time_point then) const noexcept {
  return real_ + std::clamp(then - attended_, duration{0}, step_);
}

} // namespace vgpu::policy
