#include "actors/compute/share_governor.hpp"

#include <utility>

namespace vgpu {

using policy::share_ns;
using policy::share_table;
using policy::thread_outcome;

share_governor::share_governor(std::shared_ptr<share_board> board,
                               std::int32_t seat, time_source clock)
    : board_(std::move(board)), seat_(seat), clock_(std::move(clock)) {}

/// Calls `f(table, now, out)` under the board's lock, then wakes the seats in
/// `out`.
template <class F>
auto share_governor::decide(F f) {
  thread_outcome out;
  auto result = board_->locked(
      [&](share_table& table) { return f(table, clock_(), out); });
  board_->tell(out);
  return result;
}

bool share_governor::begin() {
  return decide([&](share_table& table, share_ns now, thread_outcome& out) {
    return policy::begin_thread(table, seat_, now, out);
  });
}

bool share_governor::go_on(std::chrono::nanoseconds worked) {
  // This comes before the decision, so that a later hurry takes effect at the
  // next call.
  board_->hurries_no_more(seat_);
  return decide([&](share_table& table, share_ns now, thread_outcome& out) {
    return policy::go_on(table, seat_, worked.count(), now, out);
  });
}

void share_governor::end(std::chrono::nanoseconds worked) {
  decide([&](share_table& table, share_ns now, thread_outcome& out) {
    policy::end_thread(table, seat_, worked.count(), now, out);
    return 0;
  });
}

bool share_governor::wait() {
  while (true) {
    auto heard = board_->rings(seat_);
    if (!governs())
      break;
    share_ns look_again = 0;
    auto may =
        decide([&](share_table& table, share_ns now, thread_outcome& out) {
          auto in = policy::is_let_in(table, seat_, now, out);
          look_again = policy::look_again(table, seat_, now) - now;
          return in;
        });
    if (may)
      return true;
    board_->await(seat_, heard, std::chrono::nanoseconds{look_again});
  }
  decide([&](share_table& table, share_ns now, thread_outcome& out) {
    policy::give_up(table, seat_, now, out);
    return 0;
  });
  return false;
}

void share_governor::release() {
  released_.store(true, std::memory_order_relaxed);
  board_->ring(seat_);
}

} // namespace vgpu
