// When the GPU executes pieces of traced work, by its own clock.
#pragma once

#include "devices/interface/trace_unit.hpp"
#include "devices/nvidia/profiler/gpu_activities.hpp"
#include "devices/nvidia/streams/completions.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>

namespace vgpu::device::nvidia {

/// Puts each piece of traced work between two timing events, which say that it
/// is done. Its times are CUPTI's where that can be used, and else those of the
/// events. While nothing is traced it does nothing. record(), trace(), begin(),
/// end() and drop() belong to the thread that enqueues, and settle() to any
/// thread that has the context current.
class work_trace {
public:
  explicit work_trace(driver_ptr api) : api_(api), pool_(std::move(api)) {}
  work_trace(const work_trace&) = delete;
  work_trace& operator=(const work_trace&) = delete;
  ~work_trace();

  /// Implements trace_unit::record().
  status record(bool on);
  /// Implements trace_unit::trace().
  void trace(std::shared_ptr<work_span> what) { span_ = std::move(what); }
  bool is_on() const noexcept { return span_ != nullptr; }

  /// Begins a piece of work in this stream. Returns false where it is not
  /// traced, because an event cannot be had or too much is under way.
  bool begin(CUstream in);
  /// Ends the piece that begin() began, after its work was enqueued.
  void end(CUstream in);
  /// Drops the piece that begin() began, because its work was refused.
  void drop();

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
    gpu_activities::piece_ref exact; // null where CUPTI does not record
  };

  void settle_pieces();
  bool fix();
  std::shared_ptr<const fixed_point> fixed_now();
  bool take_times(piece& x);

  driver_ptr api_;
  event_pool pool_;
  std::shared_ptr<work_span> span_;
  event_ref began_;                 // of the piece that is being enqueued
  gpu_activities::piece_ref exact_; // the same piece
  bool records_ = false;            // CUPTI records for this device
  CUstream aside_ = nullptr;
  std::shared_ptr<const fixed_point> fixed_;
  std::mutex settling_; // held until all that is done is told
  std::mutex mutex_;    // guards pieces_
  std::deque<piece> pieces_;
  /// Counts pieces_ and those that are being told.
  std::atomic<std::size_t> under_way_{0};
};

} // namespace vgpu::device::nvidia
