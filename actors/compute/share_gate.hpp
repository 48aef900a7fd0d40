// The gate at which a worker's calls wait for their session's turn on a pGPU.
#pragma once

#include "actors/compute/share_board.hpp"
#include "actors/compute/work_lengths.hpp"
#include "devices/interface/device.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace vgpu {

/// A share_gate is one session's gate at one pGPU. enter(), submitted(), rest()
/// and wait() belong to the thread that enqueues on the device. Any thread may
/// call nudge().
///
/// While no other session uses the pGPU, a call costs one load. Otherwise the
/// gate lets work through only in the session's turn, and only as much as ends
/// with the turn. It predicts how long work takes from earlier runs of the same
/// work, and lets unknown work run alone. It charges the time that the device
/// really took, and hands the turn on when the device has finished.
class share_gate {
public:
  using time_source = std::function<policy::share_ns()>;

  /// The device must outlive the gate's last call. Completions may come later.
  share_gate(std::shared_ptr<share_board> board, std::int32_t seat,
             device::device& on, time_source clock = share_board::now);

  /// Returns whether this work may be enqueued now. If so, enqueue it and call
  /// submitted().
  bool enter(work_key what) {
    counts_ = board_->contested();
    if (!counts_) [[likely]]
      return true;
    return take_turn(what);
  }
  /// Returns whether the gate charges the work that it let in last.
  bool counts() const noexcept { return counts_; }
  /// Returns the total that was charged. Thread-safe.
  std::chrono::nanoseconds charged() const noexcept;
  /// Reports that the work which enter() let in is enqueued.
  void submitted() {
    if (unmarked_) [[unlikely]]
      look_at_batch(!counts_); // without competition, the whole batch
  }
  /// Reports that no further call is waiting, so that the open batch is
  /// complete.
  void rest() {
    if (counts_ || unmarked_) [[unlikely]]
      begin_rest();
  }
  /// Sleeps, after enter() refused, until another attempt may succeed.
  void wait(std::chrono::nanoseconds at_most);
  /// Ends a wait().
  void nudge() noexcept { board_->ring(seat_); }

private:
  struct batch;
  struct account;

  bool take_turn(work_key what);
  bool goes_along(work_key what, policy::share_ns now);
  void begin_batch(work_key what, const policy::share_work& length,
                   policy::share_ns now, bool known);
  void watch(std::uint32_t partings);
  void add(work_key what, const policy::share_work& length,
           policy::share_ns now);
  void look_at_batch(bool all);
  void begin_rest();
  void note_awaited(policy::share_ns now);

  std::shared_ptr<share_board> board_;
  std::int32_t seat_;
  device::device& device_;
  std::shared_ptr<account> account_;
  /// Holds enqueued work for which no completion is requested yet.
  std::shared_ptr<batch> open_;
  /// Tells whether open_ is such a batch.
  bool unmarked_ = false;
  bool counts_ = false;
  /// Says since when no call is at hand. 0: there are calls to serve.
  policy::share_ns resting_since_ = 0;
  /// Holds the bell's count at the time when enter() refused.
  std::uint32_t rings_ = 0;
  policy::share_ns look_again_ = 0;
};

/// Holds the gates of a session's devices, by ordinal. A device may have none.
class share_gates {
public:
  share_gates() = default;
  explicit share_gates(std::vector<std::unique_ptr<share_gate>> gates)
      : gates_(std::move(gates)) {}

  /// Does what share_gate::enter() does. A device without a gate lets
  /// everything in.
  bool enter(std::size_t ordinal, work_key what) {
    if (ordinal >= gates_.size() || !gates_[ordinal])
      return true;
    closed_ = gates_[ordinal].get();
    return closed_->enter(what);
  }
  bool counts(std::size_t ordinal) const noexcept {
    return ordinal < gates_.size() && gates_[ordinal] &&
           gates_[ordinal]->counts();
  }
  /// Returns the total that was charged on one device.
  std::chrono::nanoseconds charged(std::size_t ordinal) const noexcept {
    return ordinal < gates_.size() && gates_[ordinal]
               ? gates_[ordinal]->charged()
               : std::chrono::nanoseconds{0};
  }
  /// Returns the total that was charged on all devices.
  std::chrono::nanoseconds charged() const noexcept {
    std::chrono::nanoseconds out{0};
    for (const auto& x : gates_)
      if (x)
        out += x->charged();
    return out;
  }
  void submitted(std::size_t ordinal) {
    if (ordinal < gates_.size() && gates_[ordinal])
      gates_[ordinal]->submitted();
  }
  void rest() {
    for (auto& x : gates_)
      if (x)
        x->rest();
  }
  /// Waits at the gate that refused last.
  void wait(std::chrono::nanoseconds at_most) {
    if (closed_ != nullptr)
      closed_->wait(at_most);
  }
  void nudge() noexcept {
    for (auto& x : gates_)
      if (x)
        x->nudge();
  }

private:
  std::vector<std::unique_ptr<share_gate>> gates_;
  share_gate* closed_ = nullptr;
};

} // namespace vgpu
