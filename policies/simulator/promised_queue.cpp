#include "policies/simulator/promised_queue.hpp"

#include <iterator>

namespace vgpu::simulator {

void promised_queue::settle() {
  while (left_ < 0 && !promised_.empty()) {
    auto last = std::prev(promised_.end());
    left_ += last->second.bytes;
    first_.erase(last->first, last->second.in);
    behind_.insert(last->first, last->second.in);
    beyond_.insert(promised_.extract(last));
  }
  while (!beyond_.empty() && beyond_.begin()->second.bytes <= left_) {
    auto next = beyond_.begin();
    left_ -= next->second.bytes;
    behind_.erase(next->first, next->second.in);
    first_.insert(next->first, next->second.in);
    promised_.insert(beyond_.extract(next));
  }
}

} // namespace vgpu::simulator
