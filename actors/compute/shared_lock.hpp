// A lock in memory that other processes can write, also hostile ones.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace vgpu {

/// Locks one word of shared memory. Unlike a robust mutex of the C library it
/// keeps no pointers in that memory, so a hostile process can stop the others
/// for a while, but cannot make them write elsewhere. A thread that dies with
/// the lock loses it. So does one that holds it for as long as no honest thread
/// does. Zeroes are an open lock. Process-safe.
class shared_lock {
public:
  /// Says after which time a waiting thread looks whether the holder lives.
  static constexpr std::chrono::milliseconds looks_after{20};
  /// Says for how long a thread that lives may hold the lock.
  static constexpr std::chrono::seconds longest{10};

  void lock() noexcept;
  void unlock() noexcept;

private:
  /// Waits until the word changes from `seen`, or takes the lock over. Returns
  /// whether this thread has the lock.
  bool wait(std::uint32_t seen, std::uint32_t self,
            std::chrono::steady_clock::time_point& held_since) noexcept;

  /// Holds the holder's thread number, and a bit while others wait. 0: open.
  std::atomic<std::uint32_t> holder_;
};

} // namespace vgpu
