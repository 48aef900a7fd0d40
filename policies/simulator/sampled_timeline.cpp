#include "policies/simulator/sampled_timeline.hpp"

#include <algorithm>

namespace vgpu::simulator {

namespace {

void add_to(levels& sum, const levels& x, double times) {
  sum.busy += x.busy * times;
  sum.promised += x.promised * times;
  sum.queue += x.queue * times;
}

} // namespace

void timeline::add(double from, double to, const levels& what) {
  end_ = std::max(end_, to);
  while (to > span_ * most_spans) {
    for (std::size_t i = 0; i < sums_.size(); i += 2) {
      auto both = sums_[i];
      if (i + 1 < sums_.size())
        add_to(both, sums_[i + 1], 1);
      sums_[i / 2] = both;
    }
    sums_.resize((sums_.size() + 1) / 2);
    span_ *= 2;
  }
  while (from < to) {
    auto i = std::min(static_cast<std::size_t>(from / span_), most_spans - 1);
    auto next = std::min(to, static_cast<double>(i + 1) * span_);
    if (sums_.size() <= i)
      sums_.resize(i + 1);
    add_to(sums_[i], what, next - from);
    // Rounding must not stop the progress.
    if (next <= from)
      break;
    from = next;
  }
}

std::vector<levels> timeline::means() const {
  std::vector<levels> out(sums_.size());
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    auto begin = static_cast<double>(i) * span_;
    auto length = std::min(span_, end_ - begin);
    if (length > 0)
      add_to(out[i], sums_[i], 1 / length);
  }
  return out;
}

levels timeline::mean() const {
  levels out;
  for (const auto& x : sums_)
    add_to(out, x, end_ > 0 ? 1 / end_ : 0);
  return out;
}

} // namespace vgpu::simulator
