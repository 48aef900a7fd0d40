// Chooses what the next worker of a session restores.
#pragma once

#include "actors/client/held_state.hpp"
#include "actors/client/opened_session.hpp"
#include "actors/client/session_lease.hpp"
#include "actors/client/session_reports.hpp"
#include "actors/link/data_head.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace vgpu {

/// Holds the state that a session's next worker restores, and chooses between
/// that state, the newest snapshot and the whole journal.
///
///   nothing ──hold──► a state ──restored──► nothing
///      │                 │ given to two workers, which could not restore it
///      │ choose          ▼
///      └──────────► the newest snapshot ──────► the whole journal
///                                      likewise
///
/// It reads the session's memory and lease, moves the call log's reader to the
/// chosen beginning, and reports to the manager what was given up. It belongs
/// to the session_client's thread.
class session_restore {
public:
  /// Takes references, which must outlive the object.
  session_restore(opened_session& opened, const session_lease& lease,
                  const session_reports& reports)
      : opened_(opened), lease_(lease), reports_(reports) {}

  /// Takes the state that a released worker handed over.
  void hold(held_state state) { held_ = std::move(state); }
  /// Gives up the state, if there is one.
  void discard() noexcept { held_.reset(); }
  /// Returns the state, or null.
  const held_state* held() const noexcept { return held_ ? &*held_ : nullptr; }

  /// Makes a copy of the memory that the state lends. Where the next worker
  /// cannot have it, gives up the state and returns false. `here` says that the
  /// next worker is on this host and maps the call log.
  bool offer_lent(bool here);
  /// Chooses what the worker of the current lease restores.
  void choose();
  /// Drops the state, which the serving worker does not need any more, and
  /// reports to the manager. `follows` says that another worker served the
  /// session before it. `adopted` says that the worker got the file itself.
  void restored(bool follows, bool adopted);
  /// Frees some of the memory of a dropped state. Call it from time to time
  /// while frees().
  void free_some();
  bool frees() const noexcept { return static_cast<bool>(dropped_); }

  /// Returns the bytes that a worker asks for, or null where there are none.
  std::shared_ptr<const std::vector<std::byte>>
  part(const data::state_wanted& wanted);
  /// Returns whether no worker could restore the last snapshot, so that another
  /// is not worth taking.
  bool snapshot_useless() const noexcept { return snapshot_useless_; }
  /// Returns how many of the session's calls the chosen snapshot covers.
  std::uint64_t calls_before() const noexcept { return calls_before_; }

private:
  void give_up_tried(bool whole_journal);
  bool hold_snapshot();
  void report_copied() const;

  opened_session& opened_;
  const session_lease& lease_;
  const session_reports& reports_;
  std::optional<held_state> held_;
  /// Holds the file of a state that nobody needs. Freeing all of it at once
  /// takes longer than a worker waits for a sign of life.
  unique_fd dropped_;
  bool snapshot_useless_ = false;
  std::uint64_t calls_before_ = 0;
};

} // namespace vgpu
