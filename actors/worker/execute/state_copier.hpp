// Copies the memory of a state while calls are executed.
#pragma once

#include "actors/state/snapshot_base.hpp"
#include "actors/worker/session/session_objects.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace vgpu {

/// Copies a session's memory ahead of a state, in rounds. Each round copies
/// what changed since its last copy. It takes less time than the one before if
/// the program changes memory more slowly than it is copied. A snapshot's file
/// is kept, so that the next snapshot copies only what changed since. The
/// executor's thread uses it, and a thread of its own copies.
class state_copier {
public:
  explicit state_copier(session_objects& session) : session_(session) {}

  /// Returns whether memory can be copied while calls are executed, because
  /// every device tracks changes.
  bool is_possible() const;
  bool is_copying() const noexcept { return round_ != nullptr; }

  /// Begins a state in this file, which finish() completes. In a file whose
  /// contents were kept, unchanged contents stay; another file is emptied.
  /// `keep` keeps the contents of this one. Call go_on() now, and after each
  /// call of `ring`, which comes on any thread.
  status begin(int file, bool keep, std::function<void()> ring);
  /// Continues the copy. Returns true when the session should stand still for
  /// the rest, because so little or so much changes. Abandon the copy after a
  /// fault. Precondition: is_copying().
  result<bool> go_on();
  /// Completes the state with the rest of the memory and the index. Returns its
  /// size. Call it only while the devices are idle. Precondition: is_copying().
  result<std::uint64_t> finish();
  void abandon() noexcept { round_.reset(); }
  /// Forgets all kept files.
  void forget() noexcept { kept_.clear(); }

private:
  class rounds;

  session_objects& session_;
  /// Holds the files whose contents are kept, the latest last.
  std::vector<std::shared_ptr<snapshot_base>> kept_;
  std::shared_ptr<rounds> round_;
};

} // namespace vgpu
