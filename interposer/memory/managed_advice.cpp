#include "interposer/memory/managed_advice.hpp"

#include "interposer/memory/memory_part.hpp"

#include <algorithm>
#include <iterator>

namespace vgpu::interposer {

void advice_map::split(device_address at) {
  auto next = ranges_.upper_bound(at);
  if (next == ranges_.begin())
    return;
  auto& [begin, x] = *std::prev(next);
  if (at == begin || at - begin >= x.bytes)
    return;
  ranges_.emplace(at, range{begin + x.bytes - at, x.what});
  x.bytes = at - begin;
}

void advice_map::apply(device_address at, std::uint64_t bytes,
                       const std::function<void(advice&)>& change) {
  std::lock_guard guard{mutex_};
  auto end = at + bytes;
  split(at);
  split(end);
  while (at < end) {
    auto next = ranges_.lower_bound(at);
    if (next == ranges_.end() || next->first != at) {
      auto stop = next == ranges_.end() ? end : std::min(end, next->first);
      next = ranges_.emplace(at, range{stop - at, {}}).first;
    }
    change(next->second.what);
    at += next->second.bytes;
  }
}

void advice_map::each(device_address at, std::uint64_t bytes,
                      const std::function<void(const advice&)>& look) const {
  std::lock_guard guard{mutex_};
  auto end = at + bytes;
  auto i = ranges_.upper_bound(at);
  if (i != ranges_.begin())
    if (auto before = std::prev(i); at - before->first < before->second.bytes)
      i = before;
  for (; at < end; ++i) {
    if (i == ranges_.end() || i->first > at)
      look({});
    if (i == ranges_.end() || i->first >= end)
      return;
    look(i->second.what);
    at = i->first + i->second.bytes;
  }
}

void advice_map::forget(device_address at, std::uint64_t bytes) {
  std::lock_guard guard{mutex_};
  split(at);
  split(at + bytes);
  ranges_.erase(ranges_.lower_bound(at), ranges_.lower_bound(at + bytes));
}

advice_map& given_advice() noexcept {
  return memory_part::get().given_advice;
}

} // namespace vgpu::interposer
