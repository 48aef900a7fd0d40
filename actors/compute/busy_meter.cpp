#include "actors/compute/busy_meter.hpp"

#include <algorithm>
#include <utility>

namespace vgpu {

namespace {

std::uint8_t percent_of(std::chrono::nanoseconds worked,
                        std::chrono::nanoseconds of) {
  if (of.count() <= 0)
    return 0;
  return static_cast<std::uint8_t>(
      std::clamp<std::int64_t>(100 * worked.count() / of.count(), 0, 100));
}

} // namespace

void busy_meter::watch(std::function<times()> read) {
  std::lock_guard guard{lock_};
  read_ = std::move(read);
}

void busy_meter::forget() {
  std::lock_guard guard{lock_};
  read_ = nullptr;
  shown_ = nullptr;
}

void busy_meter::show(std::shared_ptr<const session_area> in) {
  std::lock_guard guard{lock_};
  shown_ = std::move(in);
}

void busy_meter::look(clock::time_point now) {
  std::lock_guard guard{lock_};
  if (!read_)
    return;
  auto worked = read_();
  if (older_.worked.size() != worked.size())
    older_ = newer_ = {now, worked};
  percents_.resize(worked.size());
  for (std::size_t i = 0; i < worked.size(); ++i) {
    percents_[i] = percent_of(worked[i] - older_.worked[i], now - older_.at);
    if (shown_)
      shown_->note_busy(i, percents_[i], now);
  }
  if (now - newer_.at >= window)
    older_ = std::exchange(newer_, {now, std::move(worked)});
}

std::vector<std::uint8_t> busy_meter::percents() const {
  std::lock_guard guard{lock_};
  return percents_;
}

} // namespace vgpu
