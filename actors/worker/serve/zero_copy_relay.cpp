#include "actors/worker/serve/zero_copy_relay.hpp"

#include "actors/link/log.hpp"

#include <algorithm>

namespace vgpu {

bool zero_copy_relay::is_due() const {
  auto& memory = exec_.zero_copy();
  return client_.answers() && client_.has_client() && !silence_.lapsed() &&
         memory && memory->any() && !progress_.is_replaying() &&
         (!published_ || until_ != progress_.position());
}

void zero_copy_relay::relay() {
  if ((!done_ || done_->load()) && until_ != progress_.position()) {
    until_ = progress_.position();
    published_ = false;
    done_ = std::make_shared<std::atomic<bool>>(false);
    exec_.when_idle([done = done_] { *done = true; });
  }
  auto now = clock::now();
  if (now < again_)
    return;
  published_ = done_->load();
  client_.answers()->tell_now();
  // Comparing much memory then takes a small part of the time.
  constexpr auto pause = 20;
  auto took = clock::now() - now;
  again_ = now + std::max<clock::duration>(every, pause * took);
}

void zero_copy_relay::end_replay() {
  if (!client_.answers())
    return;
  if (exec_.zero_copy() && exec_.zero_copy()->any()) {
    progress_.note();
    heartbeat_cover beating{heartbeats_};
    if (auto ok = exec_.await_known(); !ok)
      spdlog::warn("a replay of host memory that kernels use in place: {}",
                   ok.why().what);
  }
  client_.answers()->release();
}

} // namespace vgpu
