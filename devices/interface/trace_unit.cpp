#include "devices/interface/trace_unit.hpp"

#include <algorithm>
#include <utility>

namespace vgpu::device {

void work_span::expect() {
  std::lock_guard guard{mutex_};
  ++open_;
}

void work_span::lower(clock::time_point& to, clock::time_point at) {
  to = to == clock::time_point{} ? at : std::min(to, at);
}

void work_span::reached(clock::time_point at) {
  std::lock_guard guard{mutex_};
  lower(seen_.reached, at);
}

void work_span::began(clock::time_point at) {
  std::lock_guard guard{mutex_};
  lower(seen_.began, at);
}

void work_span::ended(clock::time_point at) {
  std::unique_lock held{mutex_};
  any_ = true;
  seen_.ended = std::max(seen_.ended, at);
  less(std::move(held));
}

void work_span::close() {
  less(std::unique_lock{mutex_});
}

void work_span::less(std::unique_lock<std::mutex> held) {
  if (--open_ != 0 || !any_)
    return;
  auto out = seen_;
  held.unlock();
  // The host's clock may have been set back meanwhile.
  if (out.began == clock::time_point{})
    out.began = out.reached;
  out.began = std::max(out.began, out.reached);
  out.ended = std::max(out.ended, out.began);
  if (out.reached == clock::time_point{})
    out.reached = out.began;
  done_(out);
}

} // namespace vgpu::device
