#include "interposer/session/reply_slots.hpp"

#include "interposer/session/uncancelled.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace vgpu::interposer {

namespace {

using namespace std::chrono_literals;

constexpr auto check_every = 100ms;
constexpr std::uint64_t arena_step = 64;

constexpr auto word(slot_state x) noexcept {
  return static_cast<std::uint32_t>(x);
}

} // namespace

reply_slots::reply_slots(session_area& area, busy_poll_limits limits)
    : area_(area), busy_poll_(limits) {
  free_.reserve(slot_count);
  for (auto i = slot_count - 1; i > 0; --i)
    free_.push_back(static_cast<slot_index>(i));
}

slot_index reply_slots::take(const std::function<void()>& idle) {
  for (;;) {
    ticket oldest;
    {
      std::lock_guard guard{mutex_};
      if (free_.empty() || abandoned_.size() > 64)
        collect();
      if (!free_.empty()) {
        auto index = free_.back();
        free_.pop_back();
        return index;
      }
      if (!abandoned_.empty())
        oldest = abandoned_.front();
    }
    if (oldest) {
      wait_for(oldest, check_every);
    } else {
      // Waiting threads hold all slots.
      uncancelled through;
      std::this_thread::sleep_for(1ms);
    }
    idle();
  }
}

void reply_slots::give(slot_index index) {
  area_.at(index).state.store(word(slot_state::free),
                              std::memory_order_release);
  std::lock_guard guard{mutex_};
  free_.push_back(index);
}

void reply_slots::rest(slot_index index) noexcept {
  area_.at(index).state.store(word(slot_state::free),
                              std::memory_order_release);
}

bool reply_slots::scarce() {
  std::lock_guard guard{mutex_};
  return free_.size() < slot_count / 4;
}

void reply_slots::collect() {
  auto answered = [this](const ticket& x) {
    if (!poll(x))
      return false;
    area_.at(x.slot).state.store(word(slot_state::free),
                                 std::memory_order_release);
    free_.push_back(x.slot);
    return true;
  };
  std::erase_if(abandoned_, answered);
}

std::optional<outcome> reply_slots::poll(const ticket& x) const noexcept {
  auto& s = area_.at(x.slot);
  if (s.state.load(std::memory_order_acquire) != word(slot_state::answered))
    return std::nullopt;
  return outcome{
      static_cast<CUresult>(s.result.load(std::memory_order_relaxed)),
      s.value.load(std::memory_order_relaxed)};
}

std::optional<outcome>
reply_slots::wait_for(const ticket& x,
                      std::chrono::nanoseconds patience) const {
  auto began = clock::now();
  auto answered = [&] {
    for (int i = 0; i < 32; ++i) {
      if (poll(x))
        return true;
      __builtin_ia32_pause();
    }
    return false;
  };
  if (busy_poll_.wait_for(began, answered))
    return poll(x);
  auto& s = area_.at(x.slot);
  auto give_up = began + patience;
  for (;;) {
    auto expected = word(slot_state::waiting);
    if (s.state.compare_exchange_strong(expected,
                                        word(slot_state::waiting_asleep)))
      expected = word(slot_state::waiting_asleep);
    auto now = clock::now();
    if (expected == word(slot_state::answered)) {
      busy_poll_.learned(now - began);
      return poll(x);
    }
    auto left = give_up - now;
    if (left <= 0ns) {
      busy_poll_.learned(now - began);
      return std::nullopt;
    }
    sleep_while(s.state, expected, left);
  }
}

outcome reply_slots::finish(const ticket& x,
                            const std::function<void()>& idle) {
  for (;;) {
    if (auto got = wait_for(x, check_every); got) {
      give(x.slot);
      return *got;
    }
    idle();
  }
}

void reply_slots::abandon(const ticket& x) {
  std::lock_guard guard{mutex_};
  abandoned_.push_back(x);
}

// -- arena
// ---------------------------------------------------------------------

reply_arena::reply_arena(session_area& area)
    : area_(area), ranges_(area.arena().size()) {}

reply_arena::range::range(reply_arena& owner, std::uint64_t offset,
                          std::uint64_t bytes)
    : owner_(&owner), offset_(offset), bytes_(bytes) {}

reply_arena::range::range(range&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr)), offset_(other.offset_),
      bytes_(other.bytes_) {}

reply_arena::range& reply_arena::range::operator=(range&& other) noexcept {
  std::swap(owner_, other.owner_);
  std::swap(offset_, other.offset_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

reply_arena::range::~range() {
  if (owner_ != nullptr)
    owner_->give(offset_, bytes_);
}

std::span<std::byte> reply_arena::range::bytes() const noexcept {
  return owner_->area_.arena().subspan(offset_, bytes_);
}

std::optional<reply_arena::range> reply_arena::try_take(std::uint64_t bytes) {
  auto rounded = (bytes + arena_step - 1) / arena_step * arena_step;
  std::lock_guard guard{mutex_};
  auto offset = ranges_.allocate(rounded, arena_step);
  if (!offset)
    return std::nullopt;
  return range{*this, *offset, bytes};
}

reply_arena::range reply_arena::take(std::uint64_t bytes) {
  uncancelled through;
  for (;;) {
    if (auto got = try_take(bytes); got)
      return std::move(*got);
    std::unique_lock guard{mutex_};
    given_.wait_for(guard, check_every);
  }
}

void reply_arena::give(std::uint64_t offset, std::uint64_t bytes) {
  {
    std::lock_guard guard{mutex_};
    ranges_.release(offset, (bytes + arena_step - 1) / arena_step * arena_step);
  }
  given_.notify_all();
}

} // namespace vgpu::interposer
