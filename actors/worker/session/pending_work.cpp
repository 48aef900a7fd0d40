#include "actors/worker/session/pending_work.hpp"

#include "actors/worker/session/worker_bounds.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace vgpu {

/// Counts pieces. Completions share it.
struct pending_work::sums {
  std::atomic<std::uint64_t> pieces = 0;
  std::mutex lock;
  std::condition_variable less;

  void take(std::uint64_t count) {
    pieces.fetch_sub(count);
    std::lock_guard guard{lock};
    less.notify_all();
  }
};

pending_work::pending_work() : all_(std::make_shared<sums>()) {}

bool pending_work::is_full(const place& where, bool by_itself) {
  waiting_ = false;
  seen_ = all_->pieces.load();
  if (seen_ >= worker_bounds::pending) {
    mark_all();
    waiting_ = all_->pieces.load() >= worker_bounds::pending;
  }
  if (waiting_ || !by_itself)
    return waiting_;
  auto* x = find(where);
  if (x == nullptr ||
      x->pending->pieces.load() < worker_bounds::pending_in_stream)
    return false;
  mark(all_, where.stream, *x);
  return waiting_ =
             x->pending->pieces.load() >= worker_bounds::pending_in_stream;
}

pending_work::stream* pending_work::find(const place& where) {
  if (latest_ != nullptr && latest_place_ == where) [[likely]]
    return latest_;
  auto known = streams_.find(where);
  if (known == streams_.end())
    return nullptr;
  latest_place_ = where;
  return latest_ = &known->second;
}

void pending_work::wait(std::chrono::nanoseconds at_most) {
  std::unique_lock guard{all_->lock};
  all_->less.wait_for(guard, at_most,
                      [&] { return all_->pieces.load() < seen_; });
}

void pending_work::enqueued(device::device& on, const place& where,
                            std::uint64_t pieces) {
  auto* known = find(where);
  auto& x = known != nullptr ? *known : streams_[where];
  if (known == nullptr) {
    x.on = &on;
    x.pending = std::make_shared<sums>();
    latest_place_ = where;
    latest_ = &x;
  }
  x.pending->pieces.fetch_add(pieces);
  all_->pieces.fetch_add(pieces);
  x.unmarked += pieces;
  if (x.unmarked >= worker_bounds::pending_in_stream / 8)
    mark(all_, where.stream, x);
}

void pending_work::destroyed(device::device& on, const place& where) {
  auto gone = streams_.extract(where);
  if (!gone)
    return;
  latest_ = nullptr;
  gone.mapped().on = &on;
  mark(all_, where.stream, gone.mapped());
}

std::uint64_t pending_work::pieces() const noexcept {
  return all_->pieces.load();
}

/// Lets the device report the end of all pieces in the stream so far.
void pending_work::mark(const std::shared_ptr<sums>& all, stream_id id,
                        stream& x) {
  if (x.unmarked == 0)
    return;
  auto count = std::exchange(x.unmarked, 0);
  x.on->when_done(id, [all, of = x.pending, count](CUresult) {
    of->pieces.fetch_sub(count);
    all->take(count);
  });
}

void pending_work::mark_all() {
  for (auto& [where, x] : streams_)
    mark(all_, where.stream, x);
}

} // namespace vgpu
