// The memory in which a pGPU actor and the workers on its pGPU agree on turns.
#pragma once

#include "actors/compute/shared_lock.hpp"
#include "policies/compute/share.hpp"
#include "policies/compute/share_copy.hpp"
#include "schema/base/fault.hpp"
#include "schema/log/session_area.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>

namespace vgpu {

/// A share_board is the board of one pGPU: a share_table, its lock, and a bell
/// for each seat. The pGPU actor makes it, seats sessions and sets the rules.
/// Each worker maps it, and may be hostile: no process follows a pointer of
/// that memory, and each uses a checked copy of the table (policy::share_copy).
/// A hostile worker can still take time from others. A worker that ends a turn
/// or waits for one applies the rules itself (policy::arbitrate), so one futex
/// wake-up hands a turn on and no third process runs. Thread-safe and
/// process-safe: a process that dies with the lock loses it.
class share_board {
public:
  /// Makes the memory. Fails when the kernel provides none.
  static result<std::shared_ptr<share_board>> create();
  /// Maps the memory behind this descriptor. Fails when it is not a board.
  static result<std::shared_ptr<share_board>> open(unique_fd memory);

  ~share_board();
  share_board(const share_board&) = delete;
  share_board& operator=(const share_board&) = delete;

  int fd() const noexcept { return memory_.get(); }

  /// Returns the current time of the clock that all processes of a host share.
  static policy::share_ns now() noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  // -- the pGPU's side --------------------------------------------------------

  /// Seats a session. Returns share_table::nobody where all seats are taken.
  std::int32_t sit(const policy::share_claim& claim);
  /// Frees the seat, which its former owner must not use any more, and hands
  /// its turn on.
  void stand(std::int32_t seat);
  /// Sets what the session of a seat claims.
  void set_claim(std::int32_t seat, const policy::share_claim& claim);
  /// Sets the rules by which the sessions share the pGPU.
  void set_rules(const policy::share_rules& rules);
  /// Returns the rules.
  policy::share_rules rules();
  /// Returns a copy of the seat's state.
  policy::share_seat look(std::int32_t seat);

  // -- the workers' side ------------------------------------------------------

  /// Returns whether sessions take turns at all. It costs one load.
  bool contested() const noexcept {
    return map()->contested.load(std::memory_order_relaxed) != 0;
  }

  /// Calls `f(table)` under the lock. `f` must be short and must not throw.
  template <class F>
  auto locked(F f) {
    guard hold{*this};
    return f(hold.table());
  }

  /// Rings the bell of a seat and wakes all threads that wait for it, or up to
  /// `threads` of them.
  void ring(std::int32_t seat) noexcept;
  void ring(std::int32_t seat, unsigned threads) noexcept;
  /// Returns how often the bell was rung.
  std::uint32_t rings(std::int32_t seat) const noexcept;
  /// Sleeps until the bell has rung more than `seen` times, or for `patience`.
  void await(std::int32_t seat, std::uint32_t seen,
             std::chrono::nanoseconds patience) const noexcept;

  /// Returns how long the device works on a kind of copy, in ns: the shortest
  /// time that any session saw, because the time is the same for all and other
  /// users of host memory can only lengthen it. Returns 0 where none is known.
  /// The board keeps a limited number of kinds.
  std::uint32_t copy_takes(std::uint64_t kind) const noexcept;
  /// Records such a time, in ns.
  void note_copy(std::uint64_t kind, std::uint32_t took) noexcept;

  /// Rings the bells of the session whose turn it is and of those that may
  /// enter.
  void tell(const policy::share_outcome& what) noexcept;
  /// Rings the bells of seats whose threads may enter or must hurry.
  void tell(const policy::thread_outcome& what) noexcept;
  /// Returns whether threads of the seat should call go_on(). It costs one
  /// load.
  bool hurries(std::int32_t seat) const noexcept {
    return bell_of(seat).hurries.load(std::memory_order_relaxed) != 0;
  }
  /// Ends the request that hurries() reports.
  void hurries_no_more(std::int32_t seat) noexcept {
    bell_of(seat).hurries.store(0, std::memory_order_relaxed);
  }

private:
  /// Lays out the shared memory.
  struct layout {
    static constexpr std::uint64_t the_magic = 0x30314452414f4253; // "SBOARD10"
    std::uint64_t magic;
    alignas(64) std::atomic<std::uint32_t> contested;
    alignas(64) shared_lock lock;
    policy::share_table table;
    /// Holds the words on which the threads of a seat sleep.
    struct alignas(64) bell {
      std::atomic<std::uint32_t> rings;
      std::atomic<std::uint32_t> hurries;
    };
    std::array<bell, policy::most_seats> bells;
    /// Holds the time that a kind of copy takes, in ns.
    struct copy_kind {
      /// Holds the kind, or 0 for a free place.
      std::atomic<std::uint64_t> what;
      std::atomic<std::uint32_t> takes;
    };
    std::array<copy_kind, 256> copies;
  };

  /// Holds the lock, and this process's copy of the table until it gives it
  /// back.
  class guard {
  public:
    explicit guard(const share_board& board);
    ~guard();
    guard(const guard&) = delete;
    guard& operator=(const guard&) = delete;

    policy::share_table& table() const noexcept { return table_; }

  private:
    const share_board& board_;
    std::lock_guard<std::mutex> here_;
    policy::share_table& table_;
  };

  share_board(unique_fd memory, mapping map)
      : memory_(std::move(memory)), map_(std::move(map)) {}

  layout* map() const noexcept {
    return reinterpret_cast<layout*>(map_.data());
  }
  layout::copy_kind* place_of(std::uint64_t kind) const noexcept;
  layout::bell& bell_of(std::int32_t seat) const noexcept {
    return map()->bells[static_cast<std::size_t>(seat)];
  }
  template <class F>
  auto change(F f);

  policy::share_table& take() const;

  unique_fd memory_;
  mapping map_;
  /// Guards the copy among the threads of this process.
  mutable std::mutex here_;
  mutable policy::share_copy copy_;
};

} // namespace vgpu
