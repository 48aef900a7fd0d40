#include "actors/state/inflow_thread.hpp"

#include "actors/state/processor_wait.hpp"

#include <utility>

namespace vgpu {

inflow_thread::inflow_thread(snapshot_inflow what, std::function<void()> ring)
    : inflow_(std::move(what)), ring_(std::move(ring)),
      thread_([this] { run(); }) {}

inflow_thread::~inflow_thread() {
  {
    std::lock_guard guard{lock_};
    over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void inflow_thread::take(std::uint64_t from, std::span<const std::byte> bytes,
                         std::shared_ptr<const void> owner) {
  {
    std::lock_guard guard{lock_};
    parts_.push_back({from, bytes, std::move(owner)});
  }
  changed_.notify_one();
}

std::vector<data::state_wanted> inflow_thread::wanted() {
  std::lock_guard guard{lock_};
  return std::exchange(wanted_, {});
}

bool inflow_thread::works() const {
  std::lock_guard guard{lock_};
  return busy_ || !parts_.empty();
}

result<bool> inflow_thread::complete() const {
  std::lock_guard guard{lock_};
  if (!outcome_)
    return outcome_.why();
  return complete_;
}

snapshot_inflow::account inflow_thread::bytes() const {
  std::lock_guard guard{lock_};
  return bytes_;
}

std::chrono::nanoseconds inflow_thread::waited() const {
  std::lock_guard guard{lock_};
  return waited_;
}

void inflow_thread::run() {
  processor_wait processor;
  auto began = processor.total();
  std::unique_lock guard{lock_};
  for (;;) {
    step(guard);
    waited_ = processor.total() - began;
    auto has_work = [&] {
      return over_ || (outcome_ && (!parts_.empty() || inflow_.works()));
    };
    busy_ = has_work();
    changed_.wait(guard, has_work);
    busy_ = true;
    if (over_)
      return;
  }
}

/// Stores a part, if there is one, or copies for some milliseconds. Releases
/// the lock meanwhile.
void inflow_thread::step(std::unique_lock<std::mutex>& guard) {
  part next;
  if (!parts_.empty()) {
    next = std::move(parts_.front());
    parts_.pop_front();
  }
  guard.unlock();
  auto ok = next.owner ? inflow_.take(next.from, next.bytes) : status{};
  next = {};
  if (ok && inflow_.works())
    ok = inflow_.work();
  std::vector<data::state_wanted> more;
  while (auto range = inflow_.want())
    more.push_back(*range);
  guard.lock();
  wanted_.insert(wanted_.end(), more.begin(), more.end());
  outcome_ = std::move(ok);
  complete_ = inflow_.complete();
  bytes_ = inflow_.bytes();
  guard.unlock();
  ring_();
  guard.lock();
}

} // namespace vgpu
