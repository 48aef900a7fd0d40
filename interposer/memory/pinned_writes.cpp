#include "interposer/memory/pinned_writes.hpp"

#include "interposer/memory/memory_part.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"

#include <algorithm>

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
