// The files in which a session's state is written.
#pragma once

#include "actors/link/data_head.hpp"
#include "schema/base/fault.hpp"
#include "schema/log/session_area.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace vgpu {

/// Holds the files of a session's checkpoints: files of a client of this host,
/// in memory or on a disk; a file of the worker's own, whose bytes a client
/// elsewhere requests; and the file of the last snapshot, into which the next
/// one is written. Not thread-safe.
class checkpoint_files {
public:
  /// Begins a checkpoint. `places` are files of a client of this host, in
  /// memory and perhaps on a disk. Without any, the worker uses a file of its
  /// own.
  void begin(std::vector<unique_fd> places);
  /// Chooses the state's file, if there is none yet. `keep` takes the file that
  /// is kept for the next state. `to_disk` says that the state is too large for
  /// memory.
  status choose(bool keep, bool to_disk);
  /// Returns the state's file; -1 before choose().
  int state() const noexcept { return state_.get(); }
  bool is_on_disk() const noexcept { return on_disk_; }

  /// Keeps descriptors of memory that comes with the state.
  void lend(unique_fd parcel) noexcept { lent_ = std::move(parcel); }
  /// Returns the descriptors to hand over: the state's, and those of lent
  /// memory.
  std::vector<int> handed_over() const;
  /// Records that the state is written, so that other places for it are not
  /// needed.
  void note_written() { places_.clear(); }
  /// Records that the client of this host has the descriptors. With `snapshot`,
  /// drops the worker's descriptor of the state's file.
  void note_taken(bool snapshot);
  /// Forgets everything but the last snapshot.
  void forget();

  /// Takes a file with the last snapshot, as it was restored.
  void keep_snapshot(unique_fd file) noexcept { kept_ = std::move(file); }
  bool keeps_snapshot() const noexcept { return static_cast<bool>(kept_); }
  /// Returns the file of the last snapshot; -1: none is kept.
  int kept() const noexcept { return kept_.get(); }
  void drop_snapshot() noexcept { kept_ = unique_fd{}; }

  /// Returns the bytes of the state that a client elsewhere requests; null
  /// where there is no such state, or none of it is in the range.
  std::shared_ptr<const std::vector<std::byte>>
  part(const data::state_wanted& what) const;

  /// Holds a whole state.
  struct whole_state {
    unique_fd file;
    std::uint64_t bytes = 0;
  };
  /// Returns the state's file, as a new descriptor.
  result<whole_state> whole() const;

private:
  std::vector<unique_fd> places_;
  bool on_disk_ = false;
  unique_fd state_;
  unique_fd kept_;
  unique_fd lent_;
};

} // namespace vgpu
