// The program's side of the reply slots and the reply arena.
#pragma once

#include "interposer/session/range_allocator.hpp"
#include "schema/base/busy_poll.hpp"
#include "schema/log/session_area.hpp"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace vgpu::interposer {

/// A synchronising call in the log that will be answered. A value.
struct ticket {
  slot_index slot = 0; ///< 0: none
  call_number call;

  explicit operator bool() const noexcept { return slot != 0; }
};

/// What a call was answered.
struct outcome {
  CUresult result = CUDA_SUCCESS;
  std::uint64_t value = 0;
};

/// Hands out slots and waits on them. Thread-safe.
class reply_slots {
public:
  reply_slots(session_area& area, busy_poll_limits limits);

  /// A free slot. When all are taken, waits for an abandoned one; `idle` is
  /// called every 100 ms of waiting and may throw.
  slot_index take(const std::function<void()>& idle);
  void give(slot_index index);
  /// Its call is over, and the caller keeps it for another one: until then it
  /// is nobody's, so that nobody waits for it (a session that is to move).
  void rest(slot_index index) noexcept;
  /// Whether few are left: what need not hold one for long should not.
  bool scarce();

  /// The answer, if it is there.
  std::optional<outcome> poll(const ticket& x) const noexcept;

  /// Waits for the answer at most `patience`: busy-polls for a moment, then
  /// sleeps.
  std::optional<outcome> wait_for(const ticket& x,
                                  std::chrono::nanoseconds patience) const;

  /// Waits for the answer and gives the slot back. `idle` as in take().
  outcome finish(const ticket& x, const std::function<void()>& idle);

  /// Nobody will wait for this answer; its slot is free once it came.
  void abandon(const ticket& x);

private:
  using clock = std::chrono::steady_clock;

  void collect();
  session_area& area_;
  std::mutex mutex_;
  std::vector<slot_index> free_;
  std::vector<ticket> abandoned_;
  mutable busy_poll busy_poll_;
};

/// Ranges of the reply arena. Thread-safe.
class reply_arena {
public:
  explicit reply_arena(session_area& area);

  /// One range, given back when it goes out of scope.
  class range {
  public:
    range(reply_arena& owner, std::uint64_t offset, std::uint64_t bytes);
    range(range&& other) noexcept;
    range& operator=(range&& other) noexcept;
    ~range();

    std::uint64_t offset() const noexcept { return offset_; }
    std::span<std::byte> bytes() const noexcept;
    /// It is never handed out again.
    void keep_for_ever() noexcept { owner_ = nullptr; }

  private:
    reply_arena* owner_;
    std::uint64_t offset_;
    std::uint64_t bytes_;
  };

  /// Waits while too much of the arena is taken by other threads.
  /// Precondition: bytes is not more than half of the arena.
  range take(std::uint64_t bytes);
  /// Nothing instead of waiting.
  std::optional<range> try_take(std::uint64_t bytes);

private:
  void give(std::uint64_t offset, std::uint64_t bytes);

  session_area& area_;
  std::mutex mutex_;
  std::condition_variable given_;
  range_allocator ranges_;
};

} // namespace vgpu::interposer
