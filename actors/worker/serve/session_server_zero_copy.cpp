// When a program elsewhere is told what kernels wrote into host memory that
// they use in place, besides with each answer.
#include "actors/worker/serve/session_server.hpp"

#include "actors/link/log.hpp"

#include <algorithm>

namespace vgpu {

bool session_server::kernels_may_write() const {
  auto& memory = exec_->zero_copy();
  return forwarded_ && !client_.empty() && !lapsed_ && memory &&
         memory->any() && gait_ == gait::running &&
         position_ >= replay_until_ &&
         (!zero_copy_.told || zero_copy_.until != position_);
}

/// A program may look at what kernels write, and not call meanwhile.
void session_server::look_at_zero_copy() {
  if (!kernels_may_write())
    return;
  auto& news = zero_copy_;
  if ((!news.done || news.done->load()) && news.until != position_) {
    news.until = position_;
    news.told = false;
    news.done = std::make_shared<std::atomic<bool>>(false);
    exec_->when_idle([done = news.done] { *done = true; });
  }
  auto now = clock::now();
  if (now < news.again)
    return;
  news.told = news.done->load();
  forwarded_->tell_now();
  // Where there is much to compare, it is a small part of the time.
  constexpr auto pause = 20;
  auto took = clock::now() - now;
  news.again =
      now + std::max<clock::duration>(zero_copy_news::every, pause * took);
}

/// What the program knew to be done is, and what kernels wrote in place as it
/// was.
void session_server::settle_zero_copy() {
  if (!forwarded_)
    return;
  if (exec_->zero_copy() && exec_->zero_copy()->any()) {
    known_ = progress();
    heartbeat_thread_.leave();
    auto ok = exec_->await_known();
    heartbeat_thread_.back();
    if (!ok)
      spdlog::warn("session {}: {}", options_.session.value, ok.why().what);
  }
  forwarded_->release();
}

} // namespace vgpu
