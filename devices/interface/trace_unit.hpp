// Optional interface of a device: when it executes a piece of work.
#pragma once

#include "schema/base/fault.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>

namespace vgpu::device {

/// Gathers when the pieces of one call's work were executed, and reports once
/// when all of them are done. Thread-safe.
class work_span {
public:
  using clock = std::chrono::system_clock;

  /// Holds the times of the first and the last piece.
  struct times {
    /// Is when all work before the first piece in its stream was done.
    clock::time_point reached;
    clock::time_point began, ended;
  };
  using report = std::function<void(const times&)>;

  /// Calls `done` once, on the thread that ends the last piece, or on the one
  /// that calls close(). It does not call it where there was no piece.
  explicit work_span(report done) : done_(std::move(done)) {}

  /// Announces one more piece.
  void expect();
  void reached(clock::time_point at);
  void began(clock::time_point at);
  void ended(clock::time_point at);
  /// Says that no further piece follows.
  void close();

private:
  static void lower(clock::time_point& to, clock::time_point at);
  void less(std::unique_lock<std::mutex> held);

  report done_;
  std::mutex mutex_;
  unsigned open_ = 1; // pieces that are not done, and close()
  bool any_ = false;
  times seen_{};
};

/// Represents one piece of a span, or nothing where work is not traced. A copy
/// is the same piece. The functions cost a comparison where it is nothing.
class work_piece {
public:
  work_piece() = default;
  /// Announces a piece of the span, which may be null.
  explicit work_piece(std::shared_ptr<work_span> of) : of_(std::move(of)) {
    if (of_) [[unlikely]]
      of_->expect();
  }

  void reached() const {
    if (of_) [[unlikely]]
      of_->reached(work_span::clock::now());
  }
  void began() const {
    if (of_) [[unlikely]]
      of_->began(work_span::clock::now());
  }
  /// Ends the piece. Called once, before anybody learns that the work is done.
  void ended() const {
    if (of_) [[unlikely]]
      of_->ended(work_span::clock::now());
  }

private:
  std::shared_ptr<work_span> of_;
};

/// A device that tells when it executes work implements this interface. It
/// costs nothing while nothing is traced.
class trace_unit {
public:
  virtual ~trace_unit() = default;

  /// Says that work will be traced from now on, or that no more will be. A
  /// device that prepares for it to measure exactly does so here. A fault says
  /// why it measures less exactly; work is traced all the same.
  virtual status record(bool) { return {}; }

  /// Adds the work that is enqueued from now on to this span, or to none where
  /// it is null. The thread that enqueues calls it.
  virtual void trace(std::shared_ptr<work_span> what) = 0;
};

} // namespace vgpu::device
