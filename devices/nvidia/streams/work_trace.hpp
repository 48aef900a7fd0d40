// When the GPU executes pieces of traced work, by its own clock.
#pragma once

#include "devices/interface/trace_unit.hpp"
#include "devices/nvidia/streams/completions.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>

namespace vgpu::device::nvidia {

/// Puts each piece of traced work between two timing events. While nothing is
/// traced it does nothing. trace(), begin() and end() belong to the thread that
/// enqueues, and settle() to any thread that has the context current.
class work_trace {
public:
  explicit work_trace(driver_ptr api) : api_(api), pool_(std::move(api)) {}

  /// Implements trace_unit::trace().
  void trace(std::shared_ptr<work_span> what) { span_ = std::move(what); }
  bool is_on() const noexcept { return span_ != nullptr; }

  /// Begins a piece of work in this stream. Returns false where it is not
  /// traced, because an event cannot be had or too much is under way.
  bool begin(CUstream in);
  /// Ends the piece that begin() began, after its work was enqueued.
  void end(CUstream in);

  /// Reports the pieces that are done by now. Costs a load where there are
  /// none.
  void settle() {
    if (under_way_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      settle_pieces();
  }

private:
  using clock = work_span::clock;

  /// Holds an event of which both clocks are known.
  struct fixed_point {
    event_ref at;
    clock::time_point time;
  };
  struct piece {
    event_ref began, ended;
    std::shared_ptr<const fixed_point> from;
    std::shared_ptr<work_span> of;
  };

  void settle_pieces();
  bool fix();
  std::shared_ptr<const fixed_point> fixed_now();
  bool take_times(piece& x);

  driver_ptr api_;
  event_pool pool_;
  std::shared_ptr<work_span> span_;
  event_ref began_; // of the piece that is being enqueued
  CUstream aside_ = nullptr;
  std::shared_ptr<const fixed_point> fixed_;
  std::mutex mutex_;
  std::deque<piece> pieces_;
  std::atomic<std::size_t> under_way_{0}; // as many as pieces_
};

} // namespace vgpu::device::nvidia
