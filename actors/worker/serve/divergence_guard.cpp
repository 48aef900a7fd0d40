#include "actors/worker/serve/divergence_guard.hpp"

namespace vgpu {

std::shared_ptr<answer_sink>
divergence_guard::in_front_of(std::shared_ptr<answer_sink> sink,
                              control::divergence wish) {
  if (wish != control::divergence::error)
    return sink;
  for (auto& [behind, front] : sinks_)
    if (behind == sink)
      return front;
  if (sinks_.empty())
    exec_.when_compared(ring_);
  auto front = std::make_shared<held_answers>(sink);
  if (holds_)
    front->hold();
  sinks_.emplace_back(std::move(sink), front);
  return front;
}

void divergence_guard::begin() {
  if (differs_)
    return fail(); // the next client must know it too
  if (sinks_.empty() || !progress_.is_replaying())
    return;
  holds_ = true;
  progress_.compares(true);
  for (auto& [behind, front] : sinks_)
    front->hold();
}

void divergence_guard::look() {
  if (!holds_ || differs_)
    return;
  // In this order: what was compared is also known to differ or not. Of a lost
  // device nothing was compared, and another worker will. After a fault of its
  // own the program gets that error, and has no state to go on with.
  auto done = !progress_.is_replaying() && exec_.replay_compared();
  if (exec_.error() != CUDA_SUCCESS)
    release();
  else if (exec_.replay_differs())
    fail();
  else if (done && exec_.lost() == CUDA_SUCCESS)
    release();
}

void divergence_guard::release() {
  holds_ = false;
  progress_.compares(false);
  for (auto& [behind, front] : sinks_)
    front->release();
}

void divergence_guard::fail() {
  differs_ = true;
  auto found = exec_.replay_differences_so_far();
  client_.tell(data::differs{std::move(found.calls), found.total, true,
                             std::move(found.first)});
}

} // namespace vgpu
