// Where a session's state is written.
#pragma once

#include "actors/link/data_head.hpp"
#include "schema/base/fault.hpp"
#include "schema/log/session_area.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace vgpu {

/// Holds the files of a session's checkpoints: where the client of this host
/// wants a state, in memory or on a disk; a file of the worker's own, for a
/// client elsewhere, that asks for its bytes; and that of the last snapshot,
/// which the next one is written into. One thread.
class checkpoint_files {
public:
  /// Begins a checkpoint. `places`: where a client of this host wants the
  /// state, in memory and perhaps on a disk; none for a file of the worker's
  /// own.
  void begin(std::vector<unique_fd> places);
  /// Chooses the state's file, if there is none yet. `snapshot`: the session
  /// goes on, and the file is kept for the next one. `to_disk`: the state is
  /// too large for memory.
  status choose(bool snapshot, bool to_disk);
  /// The state's file; -1 before choose().
  int state() const noexcept { return state_.get(); }
  bool is_on_disk() const noexcept { return on_disk_; }

  /// Keeps descriptors of memory that comes along with the state.
  void lend(unique_fd parcel) noexcept { lent_ = std::move(parcel); }
  /// The descriptors to hand over: the state's, and those of lent memory.
  std::vector<int> handed_over() const;
  /// The state is written: other places for it are of no use.
  void note_written() { places_.clear(); }
  /// The client of this host has what was handed over. `snapshot`: the worker
  /// needs the state's file no longer.
  void note_taken(bool snapshot);
  /// Forgets everything but the last snapshot.
  void forget();

  bool keeps_snapshot() const noexcept { return static_cast<bool>(kept_); }
  void drop_snapshot() noexcept { kept_ = unique_fd{}; }

  /// Returns the bytes of the state that a client elsewhere asks for; null
  /// where there is no such state, or none of it is in the range.
  std::shared_ptr<const std::vector<std::byte>>
  part(const data::state_wanted& what) const;

  /// Holds a state as a whole.
  struct whole_state {
    unique_fd file;
    std::uint64_t bytes = 0;
  };
  /// Returns the state's file, by a descriptor of the caller's own.
  result<whole_state> whole() const;

private:
  std::vector<unique_fd> places_;
  bool on_disk_ = false;
  unique_fd state_;
  unique_fd kept_;
  unique_fd lent_;
};

} // namespace vgpu
