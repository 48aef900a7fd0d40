// The interposer's side of the reply slots and the reply arena.
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

/// Names a call in the log whose answer will come. It is a value.
struct ticket {
  slot_index slot = 0; ///< 0: no call
  call_number call;

  explicit operator bool() const noexcept { return slot != 0; }
};

/// Holds the answer to a call.
struct outcome {
  CUresult result = CUDA_SUCCESS;
  std::uint64_t value = 0;
};

/// Hands out reply slots and waits for the answers in them. Thread-safe.
class reply_slots {
public:
  reply_slots(session_area& area, busy_poll_limits limits);

  /// Takes a free slot. When all are taken, waits for an abandoned one, and
  /// calls `idle`, which may throw, every 100 ms.
  slot_index take(const std::function<void()>& idle);
  /// Returns a slot.
  void give(slot_index index);
  /// Marks a slot that its caller keeps as unused between two calls, so that a
  /// migration does not wait for an answer in it.
  void rest(slot_index index) noexcept;
  /// Tells whether few slots are left. Then callers should not hold a slot
  /// longer than they must.
  bool scarce();

  /// Returns the answer, if it has come.
  std::optional<outcome> poll(const ticket& x) const noexcept;

  /// Waits for the answer, at most for `patience`. It busy-polls briefly and
  /// then sleeps.
  std::optional<outcome> wait_for(const ticket& x,
                                  std::chrono::nanoseconds patience) const;

  /// Waits for the answer and returns the slot. Calls `idle` as take() does.
  outcome finish(const ticket& x, const std::function<void()>& idle);

  /// Abandons an answer that no thread will wait for. The slot becomes free
  /// when the answer has come.
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

/// Hands out ranges of the reply arena. Thread-safe.
class reply_arena {
public:
  explicit reply_arena(session_area& area);

  /// Owns a range, and returns it to the arena when it goes out of scope.
  class range {
  public:
    range(reply_arena& owner, std::uint64_t offset, std::uint64_t bytes);
    range(range&& other) noexcept;
    range& operator=(range&& other) noexcept;
    ~range();

    std::uint64_t offset() const noexcept { return offset_; }
    std::span<std::byte> bytes() const noexcept;
    /// Keeps the range forever: the arena never hands it out again.
    void keep_for_ever() noexcept { owner_ = nullptr; }

  private:
    reply_arena* owner_;
    std::uint64_t offset_;
    std::uint64_t bytes_;
  };

  /// Takes a range, and waits while other threads hold too much of the arena.
  /// Precondition: bytes is at most half of the arena.
  range take(std::uint64_t bytes);
  /// Takes a range if one is free now, and never waits.
  std::optional<range> try_take(std::uint64_t bytes);

private:
  void give(std::uint64_t offset, std::uint64_t bytes);

  session_area& area_;
  std::mutex mutex_;
  std::condition_variable given_;
  range_allocator ranges_;
};

} // namespace vgpu::interposer
