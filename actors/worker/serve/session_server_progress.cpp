// How far a session is: what is replayed of it, what it is charged for, and
// what its client is told of both.
#include "actors/worker/serve/session_server_mapped.hpp"

#include <algorithm>

namespace vgpu {

void session_server::begin_replay(const data::attach& by) {
  charged_until_ = std::min(by.charged, by.replay_until);
  if (charged_until_ > position_)
    exec_->account().begin_recovery();
  reached(position_);
  if (by.replay_until == 0)
    return;
  replay_until_ = by.replay_until;
  exec_->replays_until(by.replay_until);
  replay_told_ = false;
  answer_told_ = false;
}

/// All calls before this were executed.
void session_server::reached(std::uint64_t position) {
  position_ = position;
  if (position_ >= charged_until_)
    exec_->account().end_recovery();
}

/// After a snapshot there may be nothing to replay.
void session_server::look_replayed() {
  if (replay_told_ || position_ < replay_until_)
    return;
  settle_zero_copy();
  report(true);
}

data::progress session_server::progress() {
  return {.received = std::max(received_, position_),
          .executed = exec_->executed(),
          .sticky = exec_->error(),
          .calls = exec_->calls(),
          .answers = guest_here_  ? mapped_->answers->count()
                     : forwarded_ ? forwarded_->count()
                                  : 0,
          .acknowledged = forwarded_ ? forwarded_->acknowledged() : 0,
          .charged = known_.charged,
          .busy = gauges_->busy.percents()};
}

/// Puts what calls moved into the account, together with how far that is: if
/// this worker is killed, another charges what comes after.
std::uint64_t session_server::charge() {
  gauges_->account.charge(exec_->account().traffic());
  return known_.charged = position_;
}

/// Tells the client once when a replay is done, and once when the first answer
/// after it was given.
void session_server::report(bool replayed) {
  if (!replayed && (answer_told_ || !replay_told_))
    return;
  auto now = progress();
  auto first_answer = replay_told_ && !answer_told_ && now.answers != 0;
  if (!replayed && !first_answer)
    return;
  (replayed ? replay_told_ : answer_told_) = true;
  if (guest_here_)
    (void)send_packet(mapped_->client.get(),
                      data::encode({options_.session, options_.epoch, now}));
  else if (!client_.empty())
    send(client_, now);
}

void session_server::report_differences() {
  auto found = exec_->take_differences();
  if (found.total != 0)
    tell_client(data::differs{std::move(found.calls), found.total});
}

} // namespace vgpu
