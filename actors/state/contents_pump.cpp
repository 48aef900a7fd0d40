#include "actors/state/contents_pump.hpp"

#include <utility>
#include <vector>

namespace vgpu {

contents_pump::contents_pump(int file, std::function<void()> ring)
    : file_(file), ring_(std::move(ring)), thread_([this] { run(); }) {}

contents_pump::~contents_pump() {
  {
    std::lock_guard guard{lock_};
    over_ = true;
  }
  wanted_.notify_one();
  thread_.join();
}

void contents_pump::add(job what) {
  ++under_way_;
  {
    std::lock_guard guard{lock_};
    todo_.push_back(std::move(what));
  }
  wanted_.notify_one();
}

/// Requires the lock.
std::optional<contents_pump::job> contents_pump::pop_done() {
  if (done_.empty())
    return std::nullopt;
  auto out = std::move(done_.front());
  done_.pop_front();
  --under_way_;
  return out;
}

std::optional<contents_pump::job> contents_pump::take() {
  if (under_way_ == 0)
    return std::nullopt;
  std::lock_guard guard{lock_};
  return pop_done();
}

std::optional<contents_pump::job> contents_pump::wait() {
  if (under_way_ == 0)
    return std::nullopt;
  std::unique_lock guard{lock_};
  finished_.wait(guard, [&] { return !done_.empty(); });
  return pop_done();
}

void contents_pump::work(job& x, std::span<std::byte> room) const {
  if (x.marks) {
    auto made = x.from->mark();
    x.mark = made ? *made : 0;
    x.done = made ? status{} : made.why();
    return;
  }
  auto bytes = room.first(x.chunk.bytes);
  x.done = x.from->peek(bytes, x.chunk.address);
  x.seen = x.done.ok();
  if (x.seen)
    x.done = store_contents(file_, x.chunk, bytes);
}

void contents_pump::run() {
  std::vector<std::byte> room(state_chunk_bytes);
  std::unique_lock guard{lock_};
  for (;;) {
    wanted_.wait(guard, [&] { return over_ || !todo_.empty(); });
    if (over_)
      return;
    auto at_hand = std::move(todo_.front());
    todo_.pop_front();
    guard.unlock();
    work(at_hand, room);
    guard.lock();
    done_.push_back(std::move(at_hand));
    finished_.notify_one();
    guard.unlock();
    ring_();
    guard.lock();
  }
}

} // namespace vgpu
