// Which threads of a software GPU may work for a session, by its pGPU's board.
#pragma once

#include "actors/compute/share_board.hpp"
#include "devices/interface/governor.hpp"

#include <atomic>
#include <functional>
#include <memory>

namespace vgpu {

/// A share_governor is one session's seat at the board of a pGPU whose compute
/// is threads. A thread that may not work sleeps until another session's thread
/// stops or its own session has caught up.
class share_governor final : public device::governor {
public:
  using time_source = std::function<policy::share_ns()>;

  share_governor(std::shared_ptr<share_board> board, std::int32_t seat,
                 time_source clock = share_board::now);

  bool governs() const noexcept override {
    return board_->contested() && !released_.load(std::memory_order_relaxed);
  }
  bool hurries() const noexcept override { return board_->hurries(seat_); }
  bool begin() override;
  bool go_on(std::chrono::nanoseconds worked) override;
  void end(std::chrono::nanoseconds worked) override;
  bool wait() override;
  void release() override;

private:
  template <class F>
  auto decide(F f);

  std::shared_ptr<share_board> board_;
  std::int32_t seat_;
  time_source clock_;
  std::atomic<bool> released_ = false;
};

} // namespace vgpu
