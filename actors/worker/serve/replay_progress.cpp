#include "actors/worker/serve/replay_progress.hpp"

#include <algorithm>
#include <utility>

namespace vgpu {

namespace {

std::uint64_t count(std::chrono::nanoseconds x) {
  return static_cast<std::uint64_t>(x.count());
}

} // namespace

void replay_progress::reached(std::uint64_t position) {
  position_ = position;
  if (position_ >= charged_until_)
    exec_.account().end_recovery();
}

void replay_progress::begin(const data::attach& by) {
  charged_until_ = std::min(by.charged, by.replay_until);
  if (charged_until_ > position_)
    exec_.account().begin_recovery();
  reached(position_);
  if (by.replay_until == 0)
    return;
  replay_until_ = by.replay_until;
  exec_.replays_until(by.replay_until);
  replay_reported_ = false;
  answer_reported_ = false;
}

void replay_progress::tell_replayed() {
  replay_reported_ = true;
  client_.tell(now());
}

void replay_progress::tell_first_answer() {
  if (answer_reported_ || !replay_reported_)
    return;
  auto x = now();
  if (x.answers == 0)
    return;
  answer_reported_ = true;
  client_.tell(std::move(x));
}

void replay_progress::tell_differences() {
  auto found = exec_.take_differences();
  if (found.total != 0)
    client_.tell(data::differs{std::move(found.calls), found.total, false,
                               std::move(found.first)});
}

std::uint64_t replay_progress::charge() {
  account_.charge(exec_.account().traffic());
  return latest_.charged = position_;
}

void replay_progress::tell_account() {
  using namespace std::chrono_literals;
  constexpr auto every = 100ms;
  if (served_calls_ == told_calls_)
    return;
  auto now = std::chrono::steady_clock::now();
  if (now - told_at_ < every || !client_.has_read())
    return;
  told_at_ = now;
  told_calls_ = served_calls_;
  client_.tell(this->now());
}

data::progress replay_progress::now() const {
  return {.received = std::max(client_.received(), position_),
          .executed = exec_.executed(),
          .sticky = compares_ ? CUDA_SUCCESS : exec_.error(),
          .calls = exec_.calls(),
          .answers = client_.answers(),
          .acknowledged = client_.acknowledged(),
          .charged = latest_.charged,
          .busy = busy_.percents(),
          .served_calls = served_calls_,
          .served_ns = count(served_),
          .device_ns = count(exec_.account().device_time()),
          .compares = compares_};
}

bool replay_progress::is_far() const noexcept {
  constexpr std::uint64_t far = std::uint64_t{4} << 20;
  return position_ - reported_until_ >= far;
}

} // namespace vgpu
