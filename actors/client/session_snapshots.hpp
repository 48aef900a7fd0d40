// Takes snapshots: a session's state, taken while its worker continues. The
// calls before a snapshot are never replayed, and their memory can be freed.
#pragma once

#include "actors/client/checkpoint_taker.hpp"
#include "actors/client/recovery_promise.hpp"
#include "actors/client/session_client_options.hpp"
#include "actors/client/session_reports.hpp"
#include "actors/client/session_restore.hpp"
#include "actors/state/inflow_thread.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vgpu {

/// Decides when a session's snapshot is due, takes it, and keeps it.
///
/// Snapshots lie in files that the program holds
/// (schema/log/snapshot_files.hpp). The control area names each one once it is
/// complete. So a client that dies leaves the newest one to its successor, and
/// they end with the program. The program can write all of it, so the client
/// trusts nothing there.
///
/// It sends orders to the worker, writes the program's snapshot files and
/// control area, and reports to the manager. checkpoint_taker draws the states
/// of one checkpoint.
class session_snapshots final : public checkpoint_taker {
public:
  /// Takes references, which must outlive the object.
  session_snapshots(const checkpoint_parts& parts,
                    const session_client_options& options,
                    const session_restore& restore)
      : checkpoint_taker(parts), options_(options), restore_(restore),
        promise_(parts.opened, parts.reports) {}

  /// Prepares for the worker of a new epoch. `repeats` says that it executes
  /// the calls since the newest snapshot again.
  void begin_epoch(bool repeats);
  /// Takes the worker's account.
  void note(const data::progress& x);
  /// Takes the time of a whole replay, with what came before it.
  void note_replay(std::chrono::nanoseconds took) {
    promise_.note_replay(took);
  }
  /// Promises what the session's specification says now.
  void promise_anew() { promise_.promise_anew(); }
  /// Returns when the next snapshot is due, or clock::time_point::max() where
  /// none is wanted or possible. Call it only while the session could take one.
  clock::time_point due() const;
  /// Begins a snapshot if one is due. Precondition: a worker is ready and no
  /// checkpoint is under way.
  void begin_if_due();

  /// Measures how much of the journal no snapshot covers.
  void measure_journal();
  /// Takes the program's notice that its journal fills, which the program
  /// repeats while it waits for room. Precondition: no handover is under way.
  void note_filling();
  /// Takes the program's notice that it shares memory or events with another
  /// process.
  void note_sharing();

  // -- under divergence::snapshot (cover_guard.hpp)

  /// Takes the worker's request for a snapshot of this position, because the
  /// program waits for a result. 0: it does not wait any more.
  void want_cover(std::uint64_t position);
  /// Returns whether the program waits for a result that is not covered.
  bool wants_cover() const noexcept { return wanted_ != 0; }
  /// Returns why that result cannot be covered, or nothing.
  const std::string& uncoverable() const noexcept { return uncoverable_; }

  bool works() const override { return arriving_ && arriving_->works(); }
  void give_up(const std::string& why, bool lasting) override;
  void abandon() noexcept override;

private:
  /// Counts the snapshots since the last report to the manager.
  struct account {
    std::uint64_t count = 0;
    std::uint64_t travelled = 0; // bytes received from a forwarded worker
    std::chrono::nanoseconds longest{0};
  };

  std::chrono::milliseconds rest_within() const override;
  bool runs_during_transfer() const noexcept override { return true; }
  void note_fixed() override { promise_.note_stopped(); }
  status begin_transfer(data::checkpointed& x,
                        std::vector<unique_fd> files) override;
  status take_part(std::uint64_t from, const worker_payload& part) override;
  result<bool> transfer() override;
  void finish() override;

  std::string impossible() const;
  std::chrono::milliseconds period() const;
  bool by_period() const;
  std::uint64_t uncovered() const;
  void expect_state(std::uint64_t bytes);
  void begin();
  policy::snapshot_effort effort() const;
  void schedule_next(std::chrono::nanoseconds pause);
  void retry_later(bool lasting);
  void give_back_places(std::size_t newest, bool on_disk) const;
  void report(const policy::snapshot_effort& cost);
  void note_travel(std::uint64_t bytes);
  void lower_protection(const std::string& why);
  void tell_covered();

  const session_client_options& options_;
  const session_restore& restore_;
  recovery_promise promise_;

  /// Holds the position of a read that waits for a snapshot, or 0.
  std::uint64_t wanted_ = 0;
  clock::time_point wanted_at_{}; // when a snapshot for it is due
  bool is_cover_ = false;         // the one under way was begun for a read
  std::string uncoverable_;

  std::optional<clock::time_point> taken_at_{}; // the newest, in this process
  clock::time_point next_{};                    // when the next is due
  clock::time_point rested_{}; // the next is not due before this
  std::chrono::milliseconds retry_after_{200};
  std::uint64_t journal_limit_ = 0; // bytes of calls before the next is due
  bool fills_ = false;              // the journal has reached the limit
  bool sharing_reported_ = false;
  std::string trouble_; // why the last one failed, as reported to the manager
  account account_;
  clock::time_point reported_{};

  /// Holds the place of the snapshot under way, in memory and on the disk.
  std::array<std::size_t, 2> places_{};
  /// Receives the snapshot of a forwarded worker.
  std::optional<inflow_thread> arriving_;
};

} // namespace vgpu
