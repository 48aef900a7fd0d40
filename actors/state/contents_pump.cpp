#include "actors/state/contents_pump.hpp"

#include "actors/state/processor_wait.hpp"

#include <algorithm>
#include <memory>
#include <utility>

namespace vgpu {

contents_pump::contents_pump(int file, mapped_chunks& mapped, copy_rooms& rooms,
                             std::function<void()> ring)
    : file_(file), mapped_(mapped), rooms_(rooms), ring_(std::move(ring)),
      threads_(most_under_way, [this] { run(); }) {}

contents_pump::~contents_pump() {
  {
    std::lock_guard guard{lock_};
    over_ = true;
  }
  wanted_.notify_all();
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

std::chrono::nanoseconds contents_pump::waited() const {
  std::lock_guard guard{lock_};
  return waited_;
}

/// Returns a mark to make, or pieces of one device to copy. Requires the lock
/// and a job.
std::vector<contents_pump::job> contents_pump::take_work() {
  std::vector<job> out;
  do {
    out.push_back(std::move(todo_.front()));
    todo_.pop_front();
  } while (!out.back().marks && out.size() < copied_at_once && !todo_.empty() &&
           !todo_.front().marks && todo_.front().from == out.front().from &&
           todo_.front().kept == out.front().kept);
  return out;
}

/// Does the jobs by way of `room`, which it takes when it needs one.
void contents_pump::work(std::span<job> jobs,
                         std::unique_ptr<copy_room>& room) const {
  auto& first = jobs.front();
  if (first.marks) {
    auto made = first.from->mark();
    first.mark = made ? *made : 0;
    first.done = made ? status{} : made.why();
    return;
  }
  if (!room)
    room = rooms_.take(*first.from);
  std::vector<device::peeked> pieces;
  for (std::size_t i = 0; i < jobs.size(); ++i)
    pieces.push_back(
        {jobs[i].chunk.address,
         room->memory().subspan(i * state_chunk_bytes, jobs[i].chunk.bytes),
         status{}, room->is_pinned()});
  if (first.kept != nullptr)
    first.kept->peek(pieces);
  else
    first.from->peek(pieces);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    auto& x = jobs[i];
    x.done = pieces[i].outcome;
    x.seen = x.done.ok();
    if (x.seen)
      x.done =
          store_contents(file_, x.chunk, pieces[i].into,
                         [this](auto& chunk) { return mapped_.at(chunk); });
  }
}

void contents_pump::run() {
  std::unique_ptr<copy_room> room;
  processor_wait processor;
  auto waited = processor.total();
  std::unique_lock guard{lock_};
  for (;;) {
    wanted_.wait(guard, [&] { return over_ || !todo_.empty(); });
    if (over_)
      break;
    auto at_hand = take_work();
    guard.unlock();
    work(at_hand, room);
    auto before = std::exchange(waited, processor.total());
    guard.lock();
    waited_ += waited - before;
    std::ranges::move(at_hand, std::back_inserter(done_));
    finished_.notify_one();
    guard.unlock();
    ring_();
    guard.lock();
  }
  if (room)
    rooms_.give_back(std::move(room));
}

} // namespace vgpu
