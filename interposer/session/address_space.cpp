#include "interposer/session/address_space.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <mutex>

namespace vgpu::interposer {

namespace {

constexpr std::uint64_t large = std::uint64_t{1} << 20;
constexpr std::uint64_t page = 4096;

} // namespace

std::uint64_t next_serial() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

address_space::address_space(device_address base, std::uint64_t bytes,
                             std::uint64_t quota, std::uint64_t step,
                             const std::atomic<std::uint64_t>* changed,
                             std::atomic<std::uint64_t>* shown)
    : base_(base), quota_(quota), step_(step), changed_(changed), shown_(shown),
      ranges_(bytes) {}

void address_space::use(std::uint64_t now) noexcept {
  used_ = now;
  if (shown_ != nullptr)
    shown_->store(now, std::memory_order_relaxed);
}

std::uint64_t address_space::step_of(const allocation& x) const noexcept {
  return x.managed ? std::max(step_, page) : step_;
}

std::uint64_t address_space::rounded(const allocation& x) const noexcept {
  auto step = step_of(x);
  return (x.bytes + step - 1) / step * step;
}

address_space::refusal address_space::allocate(allocation& what) {
  std::unique_lock guard{mutex_};
  auto most = quota();
  if (used_ > most || what.bytes > most - used_)
    return refusal::quota;
  auto alignment = what.bytes >= large ? granule_bytes : step_of(what);
  auto offset = ranges_.allocate(rounded(what), alignment);
  if (!offset)
    return refusal::addresses;
  what.address = base_ + *offset;
  what.serial = next_serial();
  use(used_ + what.bytes);
  live_.emplace(what.address, what);
  return refusal::none;
}

void address_space::adopt(allocation what) {
  std::unique_lock guard{mutex_};
  what.serial = next_serial();
  if (live_.insert_or_assign(what.address, what).second && is_beyond(what))
    ++beyond_;
}

std::optional<allocation> address_space::take(device_address address) {
  std::unique_lock guard{mutex_};
  auto i = live_.find(address);
  if (i == live_.end())
    return std::nullopt;
  auto what = i->second;
  live_.erase(i);
  if (is_beyond(what))
    --beyond_;
  return what;
}

std::vector<allocation> address_space::take_all(std::uint64_t context) {
  std::unique_lock guard{mutex_};
  std::vector<allocation> gone;
  for (auto i = live_.begin(); i != live_.end();) {
    if (i->second.context != context || i->second.kind == memory_kind::global) {
      ++i;
      continue;
    }
    gone.push_back(i->second);
    i = live_.erase(i);
  }
  return gone;
}

void address_space::retire(const allocation& what, std::uint64_t position) {
  std::unique_lock guard{mutex_};
  use(used_ - what.bytes);
  freed_.push_back({position, what.address - base_, rounded(what)});
}

std::optional<device_address> address_space::reserve(std::uint64_t bytes,
                                                     std::uint64_t alignment) {
  std::unique_lock guard{mutex_};
  auto offset = ranges_.allocate(bytes, alignment);
  return offset ? std::optional{base_ + *offset} : std::nullopt;
}

void address_space::unreserve(device_address address, std::uint64_t bytes,
                              std::uint64_t position) {
  std::unique_lock guard{mutex_};
  freed_.push_back({position, address - base_, bytes});
}

bool address_space::charge(std::uint64_t bytes) {
  std::unique_lock guard{mutex_};
  auto most = quota();
  if (used_ > most || bytes > most - used_)
    return false;
  use(used_ + bytes);
  return true;
}

void address_space::take_on(std::uint64_t bytes) {
  std::unique_lock guard{mutex_};
  use(used_ + bytes);
}

void address_space::refund(std::uint64_t bytes) {
  std::unique_lock guard{mutex_};
  use(used_ - bytes);
}

void address_space::settle(std::uint64_t position) {
  std::unique_lock guard{mutex_};
  while (!freed_.empty() && freed_.front().position <= position) {
    ranges_.release(freed_.front().offset, freed_.front().bytes);
    freed_.pop_front();
  }
}

std::optional<allocation> address_space::find(device_address address) const {
  std::shared_lock guard{mutex_};
  auto i = live_.upper_bound(address);
  if (i == live_.begin())
    return std::nullopt;
  auto& what = std::prev(i)->second;
  if (address - what.address >= what.bytes)
    return std::nullopt;
  return what;
}

std::optional<allocation>
address_space::find_beyond(device_address address) const {
  return beyond_.load(std::memory_order_relaxed) == 0 ? std::nullopt
                                                      : find(address);
}

std::uint64_t address_space::used() const {
  std::shared_lock guard{mutex_};
  return used_;
}

} // namespace vgpu::interposer
