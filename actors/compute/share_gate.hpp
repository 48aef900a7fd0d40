// Where a worker's calls wait for their session's turn on a pGPU.
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

/// One session's gate at one pGPU. enter(), submitted(), rest() and wait()
/// belong to the thread that enqueues on the device, nudge() to any.
///
/// While nobody else uses the pGPU it costs one load a call. Else work is let
/// through only in the session's turn, and so much of it that it ends with the
/// turn: how long it takes is predicted from what the same work took before,
/// and what was never seen runs alone. What the device then really took is
/// charged. A turn is handed on when the device is done with it.
class share_gate {
public:
  using time_source = std::function<policy::share_ns()>;

  /// The device outlives the gate's last call; completions may come later.
  share_gate(std::shared_ptr<share_board> board, std::int32_t seat,
             device::device& on, time_source clock = share_board::now);

  /// Whether this may be enqueued now; if so it is, and submitted() follows.
  bool enter(work_key what) {
    counts_ = board_->contested();
    if (!counts_) [[likely]]
      return true;
    return take_turn(what);
  }
  /// Whether what was let in last is charged here.
  bool counts() const noexcept { return counts_; }
  /// So much was, ever. Thread-safe.
  std::chrono::nanoseconds charged() const noexcept;
  void submitted() {
    if (unmarked_) [[unlikely]]
      look_at_batch(!counts_); // where nobody is there any more, all of it
  }
  /// No call is at hand: what was enqueued is all there is.
  void rest() {
    if (counts_ || unmarked_) [[unlikely]]
      begin_rest();
  }
  /// After enter() refused: sleeps until it may be worth trying again.
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
  std::shared_ptr<batch> open_; // enqueued, and its end not waited for yet
  bool unmarked_ = false;       // there is such work
  bool counts_ = false;
  policy::share_ns resting_since_ = 0; // 0: it brings work
  std::uint32_t rings_ = 0;            // heard when enter() refused
  policy::share_ns look_again_ = 0;
};

/// The gates of a session's devices, by ordinal; some may have none.
class share_gates {
public:
  share_gates() = default;
  explicit share_gates(std::vector<std::unique_ptr<share_gate>> gates)
      : gates_(std::move(gates)) {}

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
  /// On one of them.
  std::chrono::nanoseconds charged(std::size_t ordinal) const noexcept {
    return ordinal < gates_.size() && gates_[ordinal]
               ? gates_[ordinal]->charged()
               : std::chrono::nanoseconds{0};
  }
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
  /// At the gate that refused last.
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
