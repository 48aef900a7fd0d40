#include "interposer/memory/pinned_writes.hpp"

#include "interposer/memory/memory_part.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace vgpu::interposer {

void pinned_writes::add(const ticket& x, device_address to,
                        std::uint64_t bytes) {
  constexpr std::size_t some = 256, most = 1024;
  if (count_.load(std::memory_order_relaxed) > some)
    collect();
  ticket oldest;
  {
    std::lock_guard guard{mutex_};
    entries_.push_back({x, to, bytes});
    if (entries_.size() > most) {
      oldest = entries_.front().asked;
      entries_.erase(entries_.begin());
    }
    count_.store(entries_.size(), std::memory_order_release);
  }
  if (oldest)
    process::the_session().finish(oldest);
}

bool pinned_writes::unanswered::is_done() const {
  return last <= done_until->load(std::memory_order_acquire) ||
         last <= process::the_session().done_until(device);
}

void pinned_writes::add(const stream& in, device_address begin,
                        device_address end) {
  constexpr std::size_t most = 256;
  std::lock_guard guard{mutex_};
  std::erase_if(unanswered_, [](const unanswered& x) { return x.is_done(); });
  // The whole memory stands for many ranges.
  if (unanswered_.size() >= most)
    std::tie(begin, end) = std::pair{device_address{0}, ~device_address{0}};
  auto last = in.last_work.load(std::memory_order_acquire);
  auto same = std::find_if(unanswered_.begin(), unanswered_.end(),
                           [&](const unanswered& x) {
                             return x.done_until == in.done_until &&
                                    x.begin == begin && x.end == end;
                           });
  if (same != unanswered_.end()) {
    same->last = last;
    return;
  }
  unanswered_.push_back({in.done_until, in.device(), last, begin, end});
  unanswered_count_.store(unanswered_.size(), std::memory_order_release);
}

void pinned_writes::add_fill(const stream& in, device_address to,
                             std::uint64_t bytes) {
  add(in, to, to + bytes);
}

void pinned_writes::add_kernel(const stream& in) {
  add(in, 0, ~device_address{0});
}

bool pinned_writes::may_change(device_address at, std::uint64_t bytes) {
  collect();
  auto none = [](const std::atomic<std::size_t>& x) {
    return x.load(std::memory_order_acquire) == 0;
  };
  if (none(count_) && none(unanswered_count_))
    return false;
  std::lock_guard guard{mutex_};
  std::erase_if(unanswered_, [](const unanswered& x) { return x.is_done(); });
  unanswered_count_.store(unanswered_.size(), std::memory_order_release);
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const entry& x) {
                       return x.to < at + bytes && at < x.to + x.bytes;
                     }) ||
         std::any_of(unanswered_.begin(), unanswered_.end(),
                     [&](const unanswered& x) {
                       return x.begin < at + bytes && at < x.end;
                     });
}

void pinned_writes::wait_for(device_address at, std::uint64_t bytes) {
  if (count_.load(std::memory_order_acquire) == 0)
    return;
  std::vector<entry> touching;
  {
    std::lock_guard guard{mutex_};
    auto apart = [&](const entry& x) {
      return x.to + x.bytes <= at || at + bytes <= x.to;
    };
    auto first = std::partition(entries_.begin(), entries_.end(), apart);
    touching.assign(first, entries_.end());
    entries_.erase(first, entries_.end());
    count_.store(entries_.size(), std::memory_order_release);
  }
  for (auto& x : touching)
    process::the_session().finish(x.asked);
}

void pinned_writes::collect() {
  if (count_.load(std::memory_order_acquire) == 0)
    return;
  auto& slots = process::the_session().slots();
  std::lock_guard guard{mutex_};
  std::erase_if(entries_, [&](const entry& x) {
    if (!slots.poll(x.asked))
      return false;
    slots.give(x.asked.slot);
    return true;
  });
  count_.store(entries_.size(), std::memory_order_release);
}

pinned_writes& writes_under_way() noexcept {
  return memory_part::get().writes_under_way;
}

} // namespace vgpu::interposer
