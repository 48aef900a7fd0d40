#include "actors/state/chunk_stream.hpp"

#include <utility>

namespace vgpu {

chunk_stream::chunk_stream(const state_reader& from,
                           std::vector<state_chunk> wanted)
    : from_(from), wanted_(std::move(wanted)), read_(wanted_.size()),
      threads_(wanted_.size(), [this] { run(); }) {}

chunk_stream::~chunk_stream() {
  {
    std::lock_guard guard{lock_};
    over_ = true;
  }
  changed_.notify_all();
}

result<std::shared_ptr<std::byte[]>> chunk_stream::next() {
  std::unique_lock guard{lock_};
  auto& x = read_.at(taken_);
  changed_.wait(guard, [&] { return x.is_there; });
  ++taken_;
  changed_.notify_all();
  if (!x.outcome)
    return x.outcome.why();
  return std::move(x.bytes);
}

/// Requires the lock.
bool chunk_stream::may_read() const noexcept {
  return begun_ != wanted_.size() && begun_ - taken_ < most_ahead;
}

void chunk_stream::run() {
  std::unique_lock guard{lock_};
  for (;;) {
    changed_.wait(
        guard, [&] { return over_ || begun_ == wanted_.size() || may_read(); });
    if (over_ || begun_ == wanted_.size())
      return;
    auto at = begun_++;
    guard.unlock();
    auto size = wanted_[at].bytes;
    // Not zeroed: every byte is read.
    contents fresh{std::make_shared_for_overwrite<std::byte[]>(size), {}, true};
    fresh.outcome = from_.read(wanted_[at], {fresh.bytes.get(), size});
    guard.lock();
    read_[at] = std::move(fresh);
    changed_.notify_all();
  }
}

} // namespace vgpu
