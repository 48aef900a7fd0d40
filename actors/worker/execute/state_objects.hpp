// Makes the objects of a state, without their contents.
#pragma once

#include "actors/state/state_file.hpp"
#include "actors/worker/session/session_objects.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace vgpu {

/// Returns the fault of a state whose parts do not go together.
fault contradiction(const std::string& what);

/// Makes the objects of one state in a session that has none yet, or that has
/// those that were made ahead.
///
/// A prepared worker makes objects ahead while the session's present worker
/// executes calls, which make and end further objects. When the state comes,
/// what exists is kept, what the session has ended meanwhile is ended here, and
/// the rest is made. Everything happens in the order of the session's calls,
/// because a GPU's driver places modules' variables where it finds room
/// (docs/decisions/0035-objects-made-ahead.md).
///
/// The program may have been able to write the state, so everything in it is
/// checked. Not thread-safe.
class state_objects {
public:
  /// Executes one of the calls that make objects.
  using performer = std::function<status(const record&)>;

  /// Both must outlive this object.
  state_objects(session_objects& session, state_reader& from, performer perform)
      : session_(session), from_(from), perform_(std::move(perform)) {}

  /// Takes the images of modules, those that are not there yet. They must come
  /// before the objects.
  status images();

  /// Makes the objects that take long, and those that decide where variables
  /// lie, but nothing that needs the session's memory or the program. Ends with
  /// a fault soon after `stop` is set. What it has made until a fault is good.
  status make_ahead(const std::atomic<bool>& stop);
  /// Makes all objects but memory, for a dry run.
  status make_without_memory() { return make(stage::without_memory, nullptr); }
  /// Makes all objects that are not there, and ends those that the state does
  /// not have. Fails where a module cannot be taken back.
  status make_all();

  /// Checks that variables have the same addresses. Programs may have stored
  /// variables' addresses anywhere.
  status compare_variables() const;

  /// Counts the state's objects of the kinds that are made ahead.
  struct counts {
    std::size_t all = 0;
    std::size_t made_ahead = 0;
  };
  /// Returns what make_all() has counted.
  counts counted() const noexcept { return counted_; }

private:
  /// Says when an object can be made at the earliest.
  enum class stage : std::uint8_t { ahead, without_memory, with_memory };

  const state_index& index() const { return from_.index(); }
  static stage stage_of(std::span<const std::uint64_t> words);
  status check_devices() const;
  status make(stage last, const std::atomic<bool>* stop);
  status end_others();
  status end(std::uint64_t number, std::span<const std::uint64_t> words);
  template <class Call>
  status end_by(const Call& x, std::uint8_t device, std::uint64_t number);
  status compare(const state_global& x) const;

  session_objects& session_;
  state_reader& from_;
  performer perform_;
  counts counted_;
};

} // namespace vgpu
