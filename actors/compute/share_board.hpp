// The memory in which a pGPU and the workers that use it agree on whose turn
// it is.
#pragma once

#include "policies/compute/share_threads.hpp"
#include "schema/base/fault.hpp"
#include "schema/log/session_area.hpp"

#include <pthread.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

namespace vgpu {

/// One board a pGPU: a share_table, its lock, and a bell for each seat. The
/// pGPU actor makes it, seats sessions and sets the rules; each worker maps it,
/// and whoever ends a turn or waits for one applies the rules
/// (policy::arbitrate), so that a turn is handed on by one futex wake-up and
/// nobody else need run. Thread-safe, and safe between processes: who dies
/// while it holds the lock loses it.
class share_board {
public:
  /// Makes the memory. A fault when the kernel gives none.
  static result<std::shared_ptr<share_board>> create();
  /// Maps the memory behind this descriptor; a fault when it is no board.
  static result<std::shared_ptr<share_board>> open(unique_fd memory);

  ~share_board();
  share_board(const share_board&) = delete;
  share_board& operator=(const share_board&) = delete;

  int fd() const noexcept { return memory_.get(); }

  /// The time that boards count in, in all processes of a host.
  static policy::share_ns now() noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  // -- the pGPU's side --------------------------------------------------------

  /// share_table::nobody where all seats are taken.
  std::int32_t sit(const policy::share_claim& claim);
  /// Nobody who held the seat may use it any more. Its turn goes to the next.
  void stand(std::int32_t seat);
  void set_claim(std::int32_t seat, const policy::share_claim& claim);
  void set_rules(const policy::share_rules& rules);
  policy::share_rules rules();
  /// A copy of what is known of the seat.
  policy::share_seat look(std::int32_t seat);

  // -- the workers' side ------------------------------------------------------

  /// Whether turns are taken at all. One load.
  bool contested() const noexcept {
    return map()->contested.load(std::memory_order_relaxed) != 0;
  }

  /// Calls `f(table)` while nobody else does anything to the table. `f` must be
  /// short and must not throw.
  template <class F>
  auto locked(F f) {
    guard hold{*map()};
    return f(map()->table);
  }

  /// Rings and hears the bell of a seat, for all who wait there or for so many.
  void ring(std::int32_t seat) noexcept;
  void ring(std::int32_t seat, unsigned threads) noexcept;
  std::uint32_t rings(std::int32_t seat) const noexcept;
  /// Sleeps until the bell is rung for the `seen + 1`st time, or so long.
  void await(std::int32_t seat, std::uint32_t seen,
             std::chrono::nanoseconds patience) const noexcept;

  /// How long the device works on a kind of copy: the least that any session
  /// saw, in ns; 0: none did. What it takes is the same for all, and what was
  /// seen may be longer, as others use the host's memory. Of many kinds some
  /// are not kept.
  std::uint32_t copy_takes(std::uint64_t kind) const noexcept;
  void note_copy(std::uint64_t kind, std::uint32_t took) noexcept;

  /// Tells whose turn it is, or who is let in.
  void tell(const policy::share_outcome& what) noexcept;
  /// Tells who is let in or hurried.
  void tell(const policy::thread_outcome& what) noexcept;
  /// Whether threads of the seat are to call go_on(). One load.
  bool hurries(std::int32_t seat) const noexcept {
    return bell_of(seat).hurries.load(std::memory_order_relaxed) != 0;
  }
  void hurries_no_more(std::int32_t seat) noexcept {
    bell_of(seat).hurries.store(0, std::memory_order_relaxed);
  }

private:
  struct layout {
    static constexpr std::uint64_t the_magic = 0x38304452414f4253; // "SBOARD08"
    std::uint64_t magic;
    alignas(64) std::atomic<std::uint32_t> contested;
    alignas(64) pthread_mutex_t lock;
    policy::share_table table;
    struct alignas(64) bell {
      std::atomic<std::uint32_t> rings;
      std::atomic<std::uint32_t> hurries;
    };
    std::array<bell, policy::most_seats> bells;
    struct copy_kind {
      std::atomic<std::uint64_t> what; // 0: none
      std::atomic<std::uint32_t> takes;
    };
    std::array<copy_kind, 256> copies;
  };

  /// Holds the lock, also one whose owner died.
  class guard {
  public:
    explicit guard(layout& of);
    ~guard();
    guard(const guard&) = delete;
    guard& operator=(const guard&) = delete;

  private:
    layout& of_;
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

  unique_fd memory_;
  mapping map_;
};

} // namespace vgpu
