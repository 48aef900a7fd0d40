// Takes a session off its worker, for another worker or until it is resumed.
#pragma once

#include "actors/client/checkpoint_taker.hpp"
#include "actors/client/session_client_options.hpp"
#include "actors/client/session_reports.hpp"
#include "actors/link/protocol.hpp"
#include "actors/state/inflow_thread.hpp"
#include "actors/state/state_transfer.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vgpu {

/// Carries out the manager's orders to pause a session: checkpoints its worker
/// and transfers the state to this client. If anything fails before the state
/// is here, the worker continues and the session runs where it was.
///
///              forwarded             little travelled
///   begin() ──────────────► ahead ─────────────────────► rest ──► finish()
///     │                     │ ▲ │                                    ▲
///     │ mapped, or          └─┘ │ too large for memory               │
///     └─ suspends ──────────────┴──────────────────────► whole ──────┘
///
/// In `ahead` the worker executes calls while its state travels. Each round
/// brings what changed since the one before, and so does `rest`, in which the
/// session stands still. In `whole` the session stands still for all of it.
///
/// It sends orders to the worker, and answers the manager. checkpoint_taker
/// draws the states of one checkpoint.
class session_handover final : public checkpoint_taker {
public:
  session_handover(const checkpoint_parts& parts,
                   const session_client_options& options)
      : checkpoint_taker(parts), options_(options) {}

  /// Begins to carry out an order. Precondition: a worker is ready and no
  /// checkpoint is under way.
  void begin(const control::pause_session& order);
  /// Keeps an order until the snapshot under way is taken.
  void postpone(const control::pause_session& order) { postponed_ = order; }
  /// Returns the postponed order once, or nothing.
  std::optional<control::pause_session> take_postponed() {
    return std::exchange(postponed_, std::nullopt);
  }
  /// Answers an order to pause a session that is lost.
  void refuse(const std::string& why);

  bool works() const override { return arriving_ && arriving_->works(); }
  void give_up(const std::string& why, bool lasting) override;
  void abandon() noexcept override;

private:
  enum class form : std::uint8_t { ahead, rest, whole };

  std::chrono::milliseconds rest_within() const override {
    return options_.pause_within;
  }
  bool runs_during_transfer() const noexcept override {
    return form_ == form::ahead;
  }
  status begin_transfer(data::checkpointed& x,
                        std::vector<unique_fd> files) override;
  status take_part(std::uint64_t from, const worker_payload& part) override;
  result<bool> transfer() override;
  void finish() override;

  bool may_copy_ahead();
  bool may_lend() const;
  void order_whole();
  void order_changes(form what);
  status begin_changes(std::uint64_t bytes);
  result<bool> take_changes();
  void end_round();
  bool is_last_round(std::uint64_t came) const;
  void forget_state() noexcept;
  status check(int file, std::size_t& lent_count) const;
  status spill(unique_fd& file, std::uint64_t bytes) const;

  const session_client_options& options_;
  std::optional<control::pause_session> postponed_;
  control::pause_session order_{}; // that is carried out
  form form_ = form::whole;
  /// Is the state of a mapped worker, or what has come of a forwarded one's.
  unique_fd file_;
  unique_fd lent_; // the memory that the state lends
  /// Receives the whole state of a forwarded worker.
  std::optional<state_inflow> inflow_;
  /// Receives what changed in it.
  std::optional<inflow_thread> arriving_;
  /// Count the rounds and their bytes, and those of the last one.
  unsigned rounds_ = 0;
  std::uint64_t came_ahead_ = 0;
  std::uint64_t came_last_ = 0;
};

} // namespace vgpu
