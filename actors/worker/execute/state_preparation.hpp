// Compiles the modules of a session before its state comes.
#pragma once

#include "actors/state/state_file.hpp"
#include "actors/worker/session/session_objects.hpp"
#include "devices/interface/preparation_unit.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace vgpu {

/// Has the devices of a session that has nothing yet compile the modules of a
/// state, in the order in which the state loads them. It makes no object. The
/// program may have been able to write the state, so everything in it is
/// checked, and checked again when the session is restored.
class state_preparation {
public:
  /// Ends early once `stop` is set.
  state_preparation(session_objects& session, state_reader from,
                    const std::atomic<bool>& stop)
      : session_(session), from_(std::move(from)), stop_(stop) {}

  status run();

private:
  status check_size() const;
  status module(const call::module_load& x, std::size_t device);
  result<std::vector<std::byte>> image(const state_image& x);

  session_objects& session_;
  state_reader from_;
  const std::atomic<bool>& stop_;
};

/// Returns whether a device of the session can compile in advance.
bool can_prepare(const session_objects& session);
/// Drops what was compiled in advance and not loaded. Returns the counts of all
/// devices.
device::preparation_unit::counts forget_prepared(session_objects& session);

} // namespace vgpu
