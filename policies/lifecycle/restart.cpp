#include "policies/lifecycle/restart.hpp"

#include <algorithm>

namespace vgpu::policy {

restart_decision after_failure(const restart_history& before, time_point now,
                               const restart_options& options) {
  restart_decision out;
  if (now - before.last < options.forgets_after)
    out.history = before;
  out.history.last = now;
  ++out.history.in_a_row;
  ++out.history.here;
  out.give_up = out.history.in_a_row >= options.gives_up_after;
  out.elsewhere = out.history.here >= options.moves_after;
  if (out.elsewhere)
    out.history.here = 0;
  if (out.history.in_a_row > 1) {
    auto doublings = std::min(out.history.in_a_row - 2, 20u);
    out.delay = std::min(options.first_delay * (1u << doublings),
                         options.longest_delay);
  }
  return out;
}

restart_history after_progress(const restart_history& before) {
  auto out = before;
  out.in_a_row = 0;
  return out;
}

} // namespace vgpu::policy
