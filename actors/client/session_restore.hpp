// What the next worker of a session begins with.
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

/// Holds the state with which a session's next worker begins, and chooses
/// between that state, the newest snapshot and the whole journal.
///
///   nothing ──hold──► a state ──restored──► nothing
///      │                 │ given to two workers, which could not restore it
///      │ choose          ▼
///      └──────────► the newest snapshot ──────► the whole journal
///                                      likewise
///
/// It reads the session's memory and lease, moves the call log's reader to the
/// chosen beginning, and tells the manager what was given up. It belongs to the
/// session_client's thread.
class session_restore {
public:
  /// All must outlive the object.
  session_restore(opened_session& opened, const session_lease& lease,
                  const session_reports& reports)
      : opened_(opened), lease_(lease), reports_(reports) {}

  /// Takes the state that a released worker handed over.
  void hold(held_state state) { held_ = std::move(state); }
  /// Gives up the state, if there is one.
  void discard() noexcept { held_.reset(); }
  /// The state, or null.
  const held_state* held() const noexcept { return held_ ? &*held_ : nullptr; }

  /// Readies a copy of the memory that the state lends. Where the next worker
  /// cannot have it, the state is given up, and the result is false. `here`:
  /// the next worker is on this host and maps the call log.
  bool offer_lent(bool here);
  /// Chooses what the worker of the current lease begins with.
  void choose();
  /// A worker serves the session, and needs the state no more. Tells the
  /// manager. `follows`: another worker served the session before it.
  void restored(bool follows);

  /// The bytes that a worker asks for. Empty where there are none.
  std::shared_ptr<const std::vector<std::byte>>
  part(const data::state_wanted& wanted) const;
  /// Whether no worker could restore the last snapshot, so that no other is
  /// worth taking.
  bool snapshot_useless() const noexcept { return snapshot_useless_; }
  /// How many of the session's calls the chosen snapshot covers.
  std::uint64_t calls_before() const noexcept { return calls_before_; }

private:
  void give_up_tried(bool whole_journal);
  bool hold_snapshot();

  opened_session& opened_;
  const session_lease& lease_;
  const session_reports& reports_;
  std::optional<held_state> held_;
  bool snapshot_useless_ = false;
  std::uint64_t calls_before_ = 0;
};

} // namespace vgpu
