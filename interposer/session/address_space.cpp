#include "interposer/session/address_space.hpp"

#include "schema/base/round_up.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <mutex>

namespace vgpu::interposer {

namespace {

constexpr std::uint64_t large = granule_bytes;
constexpr std::uint64_t page = 4096;

} // namespace

std::uint64_t next_serial() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

address_space::address_space(device_address base, std::uint64_t bytes,
                             std::uint64_t quota, std::uint64_t step,
                             const std::atomic<std::uint64_t>* changed,
                             std::atomic<std::uint64_t>* shown,
                             std::uint64_t granule)
    : base_(base), quota_(quota), step_(step), changed_(changed), shown_(shown),
      ranges_(bytes), granule_(granule), account_(granule) {}

void address_space::show() noexcept {
  if (shown_ != nullptr)
    shown_->store(account_.used(), std::memory_order_relaxed);
}

std::uint64_t address_space::step_of(const allocation& x) const noexcept {
  return x.managed ? std::max(step_, page) : step_;
}

std::uint64_t address_space::rounded(const allocation& x) const noexcept {
  return round_up(x.bytes, x.bytes >= large ? granule_ : step_of(x));
}

address_space::refusal address_space::allocate(allocation& what) {
  std::unique_lock guard{mutex_};
  // The cost of a small block depends on the place that it gets.
  auto is_large = what.bytes >= large;
  if (what.bytes > quota() || !has_room(is_large ? rounded(what) : 0))
    return refusal::quota;
  auto alignment = is_large ? granule_bytes : step_of(what);
  auto offset = ranges_.allocate(rounded(what), alignment);
  if (!offset)
    return refusal::addresses;
  auto address = base_ + *offset;
  if (!has_room(account_.cost(address, what.bytes))) {
    // Another place may lie in granules that count already.
    ranges_.release(*offset, rounded(what));
    offset = ranges_.allocate_if(rounded(what), alignment, [&](auto at) {
      return has_room(account_.cost(base_ + at, what.bytes));
    });
    if (!offset)
      return refusal::quota;
    address = base_ + *offset;
  }
  what.address = address;
  what.serial = next_serial();
  account_.insert(address, what.bytes);
  show();
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
  account_.erase(what.address, what.bytes);
  show();
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
  if (!has_room(bytes))
    return false;
  account_.add(bytes);
  show();
  return true;
}

template <class Change>
void address_space::change(const Change& to) {
  std::unique_lock guard{mutex_};
  to(account_);
  show();
}

void address_space::take_on(std::uint64_t bytes) {
  change([&](memory_account& book) { book.add(bytes); });
}

void address_space::refund(std::uint64_t bytes) {
  change([&](memory_account& book) { book.remove(bytes); });
}

bool address_space::charge(device_address address, std::uint64_t bytes) {
  std::unique_lock guard{mutex_};
  if (!has_room(account_.cost(address, bytes)))
    return false;
  account_.insert(address, bytes);
  show();
  return true;
}

void address_space::refund(device_address address, std::uint64_t bytes) {
  change([&](memory_account& book) { book.erase(address, bytes); });
}

void address_space::add_variables(std::uint64_t bytes) {
  change([&](memory_account& book) { book.add_variables(bytes); });
}

void address_space::remove_variables(std::uint64_t bytes) {
  change([&](memory_account& book) { book.remove_variables(bytes); });
}

void address_space::set_heap(std::uint64_t bytes) {
  change([&](memory_account& book) { book.set_heap(bytes); });
}

memory_account address_space::book() const {
  std::shared_lock guard{mutex_};
  return account_;
}

void address_space::settle(std::uint64_t position) {
  std::unique_lock guard{mutex_};
  while (!freed_.empty() && freed_.front().position <= position) {
    ranges_.release(freed_.front().offset, freed_.front().bytes);
    freed_.pop_front();
  }
}

bool address_space::awaits(const allocation& what) const {
  std::shared_lock guard{mutex_};
  return what.bytes < large &&
         std::any_of(freed_.begin(), freed_.end(),
                     [&](const freed& x) { return x.bytes >= what.bytes; });
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
  return account_.used();
}

} // namespace vgpu::interposer
