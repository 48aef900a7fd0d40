// What a worker's session has used, and since when it does nothing.
#pragma once

#include "actors/compute/usage_page.hpp"
#include "actors/link/protocol.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

namespace vgpu {

/// Reads an executor's counters, adds up memory over time, and keeps the page
/// that the node reads. Thread-safe.
class usage_meter {
public:
  using clock = std::chrono::steady_clock;

  struct reading {
    control::usage used; // memory_kib_ms and bytes aside
    std::uint64_t memory = 0;
    std::uint64_t calls = 0;
    std::chrono::nanoseconds worked{0}; // by devices, as shares count it
  };

  /// `page` may be null: then nobody else knows.
  explicit usage_meter(std::shared_ptr<usage_page> page = nullptr)
      : page_(std::move(page)), looked_(clock::now()), active_(looked_) {}

  /// Where counters come from until forget(). `read` may be called by any
  /// thread that calls look().
  void watch(std::function<reading()> read);
  /// After a last look.
  void forget();

  /// To be called when memory was allocated or freed, and now and then.
  void look();

  /// The bytes that calls moved so far: of this usage, only they. One thread;
  /// no lock, and nobody else is kept waiting.
  void charge(const control::usage& traffic) noexcept;

  control::usage used() const;
  std::chrono::nanoseconds worked() const;
  /// Since it last had a call, or work in its devices, as far as was looked.
  std::chrono::milliseconds idle() const;

private:
  void look_at(clock::time_point now);

  mutable std::mutex lock_;
  std::shared_ptr<usage_page> page_;
  std::function<reading()> read_;
  reading last_;
  control::usage used_;
  std::atomic<std::uint64_t> to_device_{0};
  std::atomic<std::uint64_t> from_device_{0};
  std::atomic<std::uint64_t> replayed_{0};
  __extension__ unsigned __int128 byte_ns_ = 0; // memory, times how long
  clock::time_point looked_;
  clock::time_point active_;
};

} // namespace vgpu
