// A worker whose session cannot be described, put off its GPUs as it is: its
// driver takes the process's memory to the host, for another process that asks
// it to, and brings it back.
#include "actors/worker/serve/session_server.hpp"

#include <spdlog/spdlog.h>

namespace vgpu {

using namespace std::chrono_literals;

namespace {

/// Helpers that may fail to bring the process back: somebody may kill one.
constexpr unsigned most_returns = 3;

} // namespace

/// In place of a state that nobody could make again.
bool session_server::begins_aside(const std::string& why) {
  if (!wanted_.or_aside || goes_aside_ || !options_.put_aside ||
      !exec_->may_checkpoint_process())
    return false;
  spdlog::info("session {}: {}; its process is put aside as it is",
               options_.session.value, why);
  goes_aside_ = true;
  dry_run_.reset();
  exec_->abandon_copy();
  settled_.reset();
  stop_calls();
  return true;
}

/// Its devices are idle, and no call is under way.
void session_server::leave() {
  tell_phase(data::checkpointing::phase::resting);
  known_ = progress();
  send_answers();
  settled_.reset();
  left_at_ = clock::now();
  returns_ = false;
  failed_returns_ = 0;
  stays_because_.clear();
  // Nobody is to wait for a turn that it has.
  exec_->gates().rest();
  auto begun = options_.put_aside(aside::out, [this] { ring(); });
  if (!begun)
    return refuse_state(begun.why().what);
  helper_ = std::move(*begun);
  gait_ = gait::leaving;
}

void session_server::look_aside() {
  auto outcome = helper_->outcome();
  if (!outcome)
    return;
  helper_.reset();
  if (gait_ == gait::leaving && *outcome)
    return left();
  if (gait_ == gait::leaving) {
    stays_because_ = outcome->why().what;
    if (outcome->code() == CUDA_ERROR_NOT_SUPPORTED)
      return is_back();
    // Whatever it is now, it is to be as it was.
    gait_ = gait::aside;
    return come_back();
  }
  if (*outcome)
    return is_back();
  spdlog::warn("session {}: its process does not come back: {}",
               options_.session.value, outcome->why().what);
  gait_ = gait::aside;
  if (++failed_returns_ < most_returns)
    return come_back();
  end("its process cannot be brought back to its GPU: " + outcome->why().what,
      false);
}

void session_server::left() {
  gait_ = gait::aside;
  auto bytes = exec_->used_bytes();
  exec_->note_off_devices(true);
  if (returns_)
    return come_back();
  std::chrono::nanoseconds took = clock::now() - left_at_;
  spdlog::info("session {}: its process is aside, with {} bytes, after {} ms",
               options_.session.value, bytes, took / 1ms);
  tell_client(
      data::checkpointed{.position = position_,
                         .bytes = bytes,
                         .answers = forwarded_ ? forwarded_->count() : 0,
                         .pause_ns = static_cast<std::uint64_t>(took.count()),
                         .order = wanted_.order,
                         .aside = true});
}

void session_server::come_back() {
  returns_ = true;
  if (gait_ != gait::aside)
    return; // it will, or does
  left_at_ = clock::now();
  gait_ = gait::returning;
  auto begun = options_.put_aside(aside::back, [this] { ring(); });
  if (!begun)
    return end("nobody can bring its process back: " + begun.why().what, false);
  helper_ = std::move(*begun);
}

void session_server::is_back() {
  exec_->note_off_devices(false);
  goes_aside_ = false;
  gait_ = gait::running;
  go_on();
  spdlog::info("session {}: its process is back after {} ms",
               options_.session.value, (clock::now() - left_at_) / 1ms);
  if (stays_because_.empty())
    return tell_client(data::back{});
  tell_client(data::not_checkpointed{"its process cannot be put aside: " +
                                     std::exchange(stays_because_, {})});
}

} // namespace vgpu
