// One checkpoint of a session's worker, from the order to the state.
#pragma once

#include "actors/client/held_state.hpp"
#include "actors/client/opened_session.hpp"
#include "actors/client/session_lease.hpp"
#include "actors/client/session_worker.hpp"
#include "actors/link/data_head.hpp"
#include "schema/base/fault.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vgpu {

class session_reports;

/// Hears how a checkpoint ends.
class checkpoint_listener {
public:
  virtual ~checkpoint_listener() = default;

  /// The state is here, and every call before it was answered. The worker is
  /// to be released.
  virtual void on_state(held_state state) = 0;
  /// The worker has no state to give: the driver checkpointed its process,
  /// which waits as it is. `stopped`: what the worker said. `stood`: for how
  /// long the session has stood still.
  virtual void on_process_checkpointed(const data::checkpointed& stopped,
                                       std::chrono::nanoseconds stood) = 0;
  /// Nothing of the checkpoint is left, and the worker goes on.
  virtual void on_checkpoint_over() = 0;
};

/// What a session_handover and a session_snapshots may touch. All of it must
/// outlive them.
struct checkpoint_parts {
  opened_session& opened;
  const session_lease& lease;
  const session_reports& reports;
  const session_worker& worker;
  checkpoint_listener& listener;
};

/// The common part of handovers and snapshots: both order a checkpoint, follow
/// the worker through it, and transfer what it made.
///
///         begin           checkpointed        all is here, and all calls
///   idle ───────► ordered ────────────► transferring ───────────► finish()
///     ▲              │  too long, refused,  │   before are answered
///     └── give_up() ─┴── or worker lost ────┘
///
/// It sends the worker orders, and touches nothing else. It belongs to the
/// session_client's thread.
class checkpoint_taker {
public:
  using clock = std::chrono::steady_clock;

  virtual ~checkpoint_taker() = default;

  bool running() const noexcept { return progress_.has_value(); }
  /// Whether advance() has work that does not depend on a message.
  virtual bool has_work() const noexcept { return false; }

  /// The worker says how far it is.
  void note(const data::checkpointing& x);
  /// The worker stopped at a call. `files`: the state, of a mapped worker.
  void take(const data::checkpointed& x, std::vector<unique_fd> files);
  /// Bytes of the state, of a forwarded worker.
  void take(const data::state_part& x, std::span<const std::byte> bytes);
  /// Does what can be done now. To be called every few milliseconds while
  /// running().
  void advance();

  /// Gives up the checkpoint and lets the worker go on. `lasting`: the next one
  /// would fail as well, as far as one can tell.
  virtual void give_up(const std::string& why, bool lasting) = 0;
  /// Forgets the checkpoint: its worker serves the session no more.
  virtual void abandon() noexcept { progress_.reset(); }

protected:
  /// One checkpoint that was ordered.
  struct progress {
    clock::time_point began;
    std::uint64_t order = 0; // its number, which the worker repeats
    /// What the worker is at; nothing until it says so.
    std::optional<data::checkpointing::phase> phase{};
    clock::time_point since;   // when the worker began with that
    clock::time_point stands;  // since when calls are not executed
    bool copied_ahead = false; // the worker copied while calls were executed
    std::optional<data::checkpointed> stopped{};
  };

  explicit checkpoint_taker(const checkpoint_parts& parts) : parts_(parts) {}
  checkpoint_taker(const checkpoint_taker&) = delete;
  checkpoint_taker& operator=(const checkpoint_taker&) = delete;

  /// Starts the clock of a checkpoint, and returns its number.
  std::uint64_t begin_progress();
  /// Precondition: running().
  const progress& current() const noexcept { return *progress_; }
  const checkpoint_parts& parts() const noexcept { return parts_; }

private:
  /// How long the worker may take to come to rest, while the program waits.
  virtual std::chrono::milliseconds rest_within() const = 0;
  /// Whether the worker executes calls while the state is transferred.
  virtual bool runs_during_transfer() const noexcept = 0;
  /// The worker stopped: begins to transfer what it made. May change what is
  /// known of it.
  virtual status begin_transfer(data::checkpointed& x,
                                std::vector<unique_fd> files) = 0;
  virtual status take_part(std::uint64_t from,
                           std::span<const std::byte> bytes) = 0;
  /// Whether all of the state is here. Asks the worker for what is missing.
  virtual result<bool> transfer() = 0;
  /// The state is here, and every call before it was answered.
  virtual void finish() = 0;

  std::chrono::milliseconds phase_within() const;

  checkpoint_parts parts_;
  std::optional<progress> progress_;
};

} // namespace vgpu
