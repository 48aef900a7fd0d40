// Stores a snapshot that travels, on a thread of its own.
#pragma once

#include "actors/state/snapshot_inflow.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace vgpu {

/// Receives a snapshot (snapshot_inflow.hpp) for a thread that has other work:
/// the program's calls do not wait until contents are hashed, copied and
/// written. One thread calls the members.
class inflow_thread {
public:
  /// `ring` is called on the thread when wanted() or complete() may say
  /// something new.
  inflow_thread(snapshot_inflow what, std::function<void()> ring);
  /// Ends the thread. A piece that is being stored is completed.
  ~inflow_thread();
  inflow_thread(const inflow_thread&) = delete;
  inflow_thread& operator=(const inflow_thread&) = delete;

  /// Hands over a part. `owner` keeps its bytes.
  void take(std::uint64_t from, std::span<const std::byte> bytes,
            std::shared_ptr<const void> owner);
  /// Returns the ranges to request, each once.
  std::vector<data::state_wanted> wanted();
  /// Returns whether the thread has work without a further part.
  bool works() const;
  /// Returns whether the file is a complete state, or why it cannot become one.
  result<bool> complete() const;

  snapshot_inflow::account bytes() const;
  /// Returns for how long the thread was ready to run and had no processor.
  std::chrono::nanoseconds waited() const;

private:
  struct part {
    std::uint64_t from = 0;
    std::span<const std::byte> bytes{};
    std::shared_ptr<const void> owner{};
  };

  void run();
  void step(std::unique_lock<std::mutex>& guard);

  snapshot_inflow inflow_; // only its thread uses it
  std::function<void()> ring_;

  mutable std::mutex lock_; // guards the next members
  std::condition_variable changed_;
  bool over_ = false;
  bool busy_ = true;
  std::deque<part> parts_;
  std::vector<data::state_wanted> wanted_;
  status outcome_;
  bool complete_ = false;
  snapshot_inflow::account bytes_;
  std::chrono::nanoseconds waited_{0};

  std::thread thread_;
};

} // namespace vgpu
