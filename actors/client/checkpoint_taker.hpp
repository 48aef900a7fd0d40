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
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace vgpu {

class session_reports;

/// Receives the end of a checkpoint.
class checkpoint_listener {
public:
  virtual ~checkpoint_listener() = default;

  /// Reports that the state is here, and that every call before it was
  /// answered. The worker must be released.
  virtual void on_state(held_state state) = 0;
  /// Reports that the driver checkpointed the worker's process, because the
  /// session's state cannot be described. `stopped` is the worker's message,
  /// and `stood` how long the session has stood still.
  virtual void on_process_checkpointed(const data::checkpointed& stopped,
                                       std::chrono::nanoseconds stood) = 0;
  /// Reports that the checkpoint was given up or is taken, and that the worker
  /// continues.
  virtual void on_checkpoint_over() = 0;
};

/// Holds what session_handover and session_snapshots use. All of it must
/// outlive them.
struct checkpoint_parts {
  opened_session& opened;
  const session_lease& lease;
  const session_reports& reports;
  const session_worker& worker;
  checkpoint_listener& listener;
  /// Limits the time between two parts of a state.
  std::chrono::milliseconds part_within;
  /// Wakes the session_client's thread, which then calls advance().
  /// Thread-safe.
  std::function<void()> ring;
};

/// Is the common part of handovers and snapshots: both order a checkpoint,
/// follow the worker through it, and transfer its result.
///
///         begin           checkpointed        all is here, and all calls
///   idle ───────► ordered ────────────► transferring ───────────► finish()
///     ▲              │  too long, refused,  │   before are answered
///     └── give_up() ─┴── or worker lost ────┘
///
/// It sends orders to the worker, and changes nothing else. It belongs to the
/// session_client's thread.
class checkpoint_taker {
public:
  using clock = std::chrono::steady_clock;

  virtual ~checkpoint_taker() = default;

  bool running() const noexcept { return progress_.has_value(); }
  /// Returns whether the transfer goes on without a further message.
  virtual bool works() const { return false; }

  /// Takes the worker's report of its progress.
  void note(const data::checkpointing& x);
  /// Takes the report that the worker stopped at a call. `files` holds the
  /// state of a mapped worker.
  void take(const data::checkpointed& x, std::vector<unique_fd> files);
  /// Takes bytes of a forwarded worker's state.
  void take(const data::state_part& x, const worker_payload& part);
  /// Does what is possible now. Call it every few milliseconds while running().
  void advance();

  /// Gives up the checkpoint and lets the worker continue. `lasting` says that
  /// the next one would probably fail as well.
  virtual void give_up(const std::string& why, bool lasting) = 0;
  /// Forgets the checkpoint, because its worker does not serve the session any
  /// more.
  virtual void abandon() noexcept { progress_.reset(); }

protected:
  /// Describes a checkpoint under way.
  struct progress {
    clock::time_point began;
    std::uint64_t order = 0; // its number, which the worker repeats
    /// Holds the worker's phase; unset: it has reported none.
    std::optional<data::checkpointing::phase> phase{};
    clock::time_point since;   // when this phase began
    clock::time_point copies;  // when the worker began to copy
    clock::time_point stands;  // when the worker stopped executing calls
    clock::duration stood{0};  // until it executed them again
    bool copied_ahead = false; // the worker copied while it executed calls
    std::optional<data::checkpointed> stopped{};
    clock::time_point arrived{}; // when the last part of the state came
  };

  explicit checkpoint_taker(const checkpoint_parts& parts) : parts_(parts) {}
  checkpoint_taker(const checkpoint_taker&) = delete;
  checkpoint_taker& operator=(const checkpoint_taker&) = delete;

  /// Returns whether the worker has told that it executes calls.
  bool runs() const noexcept;
  /// Starts the clock of a checkpoint, and returns its number.
  std::uint64_t begin_progress();
  /// Returns the checkpoint under way. Precondition: running().
  const progress& current() const noexcept { return *progress_; }
  const checkpoint_parts& parts() const noexcept { return parts_; }

private:
  /// Returns how long the worker may take to come to rest, while the program
  /// waits.
  virtual std::chrono::milliseconds rest_within() const = 0;
  /// Returns whether the worker executes calls while the state is transferred.
  virtual bool runs_during_transfer() const noexcept = 0;
  /// Notes that the worker's last account is that of the state.
  virtual void note_fixed() {}
  /// Begins to transfer the result. May correct `x`.
  virtual status begin_transfer(data::checkpointed& x,
                                std::vector<unique_fd> files) = 0;
  virtual status take_part(std::uint64_t from, const worker_payload& part) = 0;
  /// Returns whether the whole state is here. Asks the worker for missing
  /// parts.
  virtual result<bool> transfer() = 0;
  /// Completes the checkpoint: the state is here, and every call before it was
  /// answered.
  virtual void finish() = 0;

  std::chrono::milliseconds phase_within() const;

  checkpoint_parts parts_;
  std::optional<progress> progress_;
};

} // namespace vgpu
