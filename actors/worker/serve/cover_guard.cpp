#include "actors/worker/serve/cover_guard.hpp"

namespace vgpu {

void cover_guard::begin(const data::attach& by) {
  exec_.cover().demand(by.on_divergence == control::divergence::snapshot);
  exec_.cover().covers(by.covered);
  if (!holds_)
    return;
  holds_ = !exec_.cover().admits();
  if (holds_)
    ask();
}

void cover_guard::hold() {
  holds_ = true;
  since_ = clock::now();
  // The snapshot must not be what finds out that the work failed.
  exec_.note_outcome();
  ask();
}

void cover_guard::take(const data::covered& x) {
  exec_.cover().covers(x.position);
  holds_ = holds_ && !exec_.cover().admits();
}

void cover_guard::take(const data::wish& x) {
  exec_.cover().demand(x.on_divergence == control::divergence::snapshot);
  if (holds_ && exec_.cover().admits())
    let_go();
}

void cover_guard::look() {
  if (holds_ && exec_.error() != CUDA_SUCCESS)
    let_go();
}

void cover_guard::let_go() {
  holds_ = false;
  client_.tell(data::cover_wanted{0});
}

void cover_guard::ask() {
  client_.tell(data::cover_wanted{progress_.position()});
}

} // namespace vgpu
