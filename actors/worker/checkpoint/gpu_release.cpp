#include "actors/worker/checkpoint/gpu_release.hpp"

#include <utility>

namespace vgpu {

status gpu_release::release() {
  failures_ = 0;
  return begin(gpu_move::release);
}

status gpu_release::begin(gpu_move what) {
  begun_at_ = clock::now();
  auto begun = begin_(what, ring_);
  if (!begun)
    return begun.why();
  helper_ = std::move(*begun);
  return {};
}

std::optional<status> gpu_release::outcome() {
  if (!helper_)
    return std::nullopt;
  auto out = helper_->outcome();
  if (out)
    helper_.reset();
  return out;
}

bool gpu_release::may_try_again() noexcept {
  constexpr unsigned most = 3;
  return ++failures_ < most;
}

} // namespace vgpu
