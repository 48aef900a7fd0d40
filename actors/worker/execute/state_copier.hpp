// A state whose memory is copied while calls are executed.
#pragma once

#include "actors/state/snapshot_base.hpp"
#include "actors/worker/session/session_objects.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace vgpu {

/// Copies a session's memory ahead of a state, in rounds. Each round copies
/// what changed since its last copy, and takes less time than the one before as
/// long as the program changes less than is copied meanwhile. Files of
/// snapshots are kept up, so that the next one copies what changed since. The
/// executor's thread uses it; a thread of its own copies.
class state_copier {
public:
  explicit state_copier(session_objects& session) : session_(session) {}

  /// Whether memory can be copied while calls are executed, because every
  /// device notices what changed since.
  bool is_possible() const;
  bool is_copying() const noexcept { return round_ != nullptr; }

  /// Begins a state in this file, for finish() in place of a capture. In a file
  /// whose contents were kept, what did not change since stays; any other is
  /// emptied. `keep`: the file will be kept up again. Call go_on() now, and
  /// whenever `ring` was called, from any thread.
  status begin(int file, bool keep, std::function<void()> ring);
  /// Returns true when what changes is so little, or so much, that the session
  /// should stand still for the rest. After a fault the copy is to be
  /// abandoned. Precondition: is_copying().
  result<bool> go_on();
  /// Ends the copy with the rest of the memory and what describes it. Returns
  /// the state's size. Call it only while the devices are idle.
  /// Precondition: is_copying().
  result<std::uint64_t> finish();
  void abandon() noexcept { round_.reset(); }
  /// Keeps no file up any more.
  void forget() noexcept { kept_.clear(); }

private:
  class rounds;

  session_objects& session_;
  /// The files that are kept up, the latest last.
  std::vector<std::shared_ptr<snapshot_base>> kept_;
  std::shared_ptr<rounds> round_;
};

} // namespace vgpu
