// Restores a session's state (schema/wire/state.capnp).
#pragma once

#include "actors/state/state_file.hpp"
#include "actors/worker/execute/state_objects.hpp"
#include "actors/worker/session/session_objects.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vgpu {

/// Restores a state in a session that has nothing yet but objects that were
/// made ahead. Each object restores one state. The program may have been able
/// to write the state, so everything in it is checked.
class state_restore {
public:
  state_restore(session_objects& session, state_reader from,
                state_objects::performer perform)
      : session_(session), from_(std::move(from)),
        objects_(session, from_, std::move(perform)) {}
  state_restore(const state_restore&) = delete;
  state_restore& operator=(const state_restore&) = delete;

  /// Lets pages of this file, which nobody else needs, become the session's
  /// memory.
  void adopt_from(int file) noexcept { adopted_ = file; }
  /// Takes the memory that comes with the state.
  void take_lent(std::vector<unique_fd> lent) { lent_ = std::move(lent); }

  /// Restores everything, and takes the session to the state's position.
  status run();
  /// Returns what the state has of the session's memory.
  const std::vector<state_chunk>& restored() const { return index().memory; }

private:
  /// Says to which device a chunk's memory belongs, and whether that memory is
  /// still zero from its allocation.
  struct target {
    device_slot* slot;
    bool fresh;
  };

  const state_index& index() const { return from_.index(); }
  status contents();
  status memory();
  status chunk(const state_chunk& x);
  status host_chunk(const state_chunk& x);
  std::optional<target> find(const state_chunk& x);
  status write();
  status write(const state_chunk& x, device_slot& slot,
               std::shared_ptr<std::byte[]> bytes);
  bool may_adopt(const state_chunk& x, const device_slot& slot) const;
  status adopt();
  status placed_memory(const state_placed& x);
  status events();

  session_objects& session_;
  state_reader from_;
  state_objects objects_;
  int adopted_ = -1; // -1: the file's pages may not become memory
  std::vector<unique_fd> lent_{};
  std::uint64_t under_way_ = 0; // bytes
  std::vector<state_chunk> to_adopt_{};
  std::vector<state_chunk> to_write_{};
  /// Holds the variables outside of each device's window.
  std::vector<memory_ranges> outside_{};
  /// Tells whether the state has host memory that is the worker's own copy
  /// here.
  bool has_host_memory_ = false;
};

} // namespace vgpu
