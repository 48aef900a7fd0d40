// Copies the memory of a state while calls are executed.
#pragma once

#include "actors/state/copy_rooms.hpp"
#include "actors/state/snapshot_base.hpp"
#include "actors/worker/session/session_objects.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace vgpu {

class state_capture;

/// Copies a session's memory for a state, most of it while calls are executed.
///
/// It copies in rounds, of which each copies what changed since its last copy.
/// A round takes less time than the one before if the program changes memory
/// more slowly than it is copied. Then the session stands still for the rest.
/// For a snapshot the device keeps copies of the rest, which takes it little
/// time, and the file gets them after the session has gone on. No round is
/// needed where the device can keep everything that changed.
///
///   begin() ─► go_on() … true ─► describe() ─► go_on() … true ─► finish()
///              calls run         at rest       calls run
///
/// A snapshot's file is kept, so that the next snapshot copies only what
/// changed since. The executor's thread uses it, and threads of its own copy.
class state_copier {
public:
  explicit state_copier(session_objects& session) : session_(session) {}

  /// Returns whether memory can be copied while calls are executed, because
  /// every device tracks changes.
  bool is_possible() const;
  bool is_copying() const noexcept { return round_ != nullptr; }

  /// Begins a state in this file, which finish() completes. In a file whose
  /// contents were kept, unchanged contents stay; another file is emptied.
  /// `snapshot` keeps the contents of this one, and lets devices keep copies
  /// beyond describe(). Call go_on() now, and after each call of `ring`, which
  /// comes on any thread.
  status begin(int file, bool snapshot, std::function<void()> ring);
  /// Continues the copy. Returns true when the next step is due. Abandon the
  /// copy after a fault. Precondition: is_copying().
  result<bool> go_on();
  /// Copies or keeps the rest of the memory, and describes everything else.
  /// Call it only while the devices are idle. Precondition: is_copying().
  status describe();
  /// Completes the state with the index. Returns its size. Waits where go_on()
  /// has not returned true since describe(). Precondition: is_copying().
  result<std::uint64_t> finish();
  /// Returns for how long the copies of the last state that was completed have
  /// delayed others on this host's processors.
  std::chrono::nanoseconds delayed() const noexcept { return delayed_; }
  void abandon() noexcept;
  /// Returns whether the copy has device memory beside the session's.
  bool has_room() const noexcept;
  /// Gives that memory back, after the file has its contents. Returns false
  /// where there is none.
  bool give_back_room();
  /// Records that the session's memory was restored from these contents, and
  /// has had them until the device's mark, one for each device. So a file with
  /// a snapshot of a former worker gets only what differs.
  void note_restored(std::vector<state_chunk> contents,
                     std::vector<std::uint64_t> marks);
  /// Forgets all kept files.
  void forget() noexcept {
    kept_.clear();
    restored_.clear();
  }

private:
  class rounds;

  std::shared_ptr<snapshot_base> take_over(int file) const;
  std::optional<std::uint64_t> mark_of(const state_chunk& x) const;

  session_objects& session_;
  /// Stays where the copier goes.
  std::unique_ptr<copy_rooms> copy_rooms_ = std::make_unique<copy_rooms>();
  /// Hold what note_restored() got, the contents ordered by address.
  std::vector<state_chunk> restored_;
  std::vector<std::uint64_t> restored_marks_;
  /// Holds the files whose contents are kept, the latest last.
  std::vector<std::shared_ptr<snapshot_base>> kept_;
  std::shared_ptr<rounds> round_;
  std::shared_ptr<state_capture> description_;
  std::chrono::nanoseconds delayed_{0};
};

} // namespace vgpu
