// Measures what a worker's session has used, and how long it has been idle.
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

/// Reads an executor's counters, integrates memory over time, and updates the
/// page that the node reads. Thread-safe.
class usage_meter {
public:
  using clock = std::chrono::steady_clock;

  /// Holds the counters as of one moment.
  struct reading {
    /// Holds everything except memory_kib_ms and bytes.
    control::usage used;
    std::uint64_t memory = 0;
    std::uint64_t calls = 0;
    /// Holds the time that devices worked, as shares count it.
    std::chrono::nanoseconds worked{0};
  };

  /// Takes the page that the node reads, or null for none.
  explicit usage_meter(std::shared_ptr<usage_page> page = nullptr)
      : page_(std::move(page)), looked_(clock::now()), active_(looked_) {}

  /// Sets the source of counters until forget(). Any thread that calls look()
  /// may call `read`.
  void watch(std::function<reading()> read);
  /// Reads the source a last time and drops it.
  void forget();

  /// Takes a sample. Call it when memory was allocated or freed, and regularly.
  void look();

  /// Sets the total of bytes that calls moved; other members of `traffic` are
  /// ignored. Only one thread may call it. It takes no lock and delays nobody.
  void charge(const control::usage& traffic) noexcept;

  /// Returns everything that was used so far.
  control::usage used() const;
  /// Returns the time that devices worked so far.
  std::chrono::nanoseconds worked() const;
  /// Returns the time since the last sample that saw a new call or work in a
  /// device.
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
  /// Sums up memory times how long it was held, in byte nanoseconds.
  __extension__ unsigned __int128 byte_ns_ = 0;
  clock::time_point looked_;
  clock::time_point active_;
};

} // namespace vgpu
