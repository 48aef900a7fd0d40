// The common parts of vgpu-manager and vgpu-node.
#pragma once

#include "nodes/support/main_loop.hpp"

#include <caf/all.hpp>
#include <CLI/CLI.hpp>

#include <string>

namespace vgpu {

/// Says how a daemon depends on the process that started it. Both descriptors
/// are inherited, and -1 when there is none.
struct daemon_ties {
  /// The daemon writes one line to it when it is ready, and closes it.
  int ready_fd = -1;
  /// Its end of file makes the daemon end, because the owner is gone.
  int owner_fd = -1;
  /// The last process with this setting to end removes the run directory.
  bool remove_run_dir = false;
};

/// Adds the options, none of which a user needs to know.
void describe(CLI::App& app, daemon_ties& ties);

/// Writes `line` to ready_fd and closes it.
void say_ready(daemon_ties& ties, const std::string& line);

/// Implements an actor that runs `then` on the main thread when `watched` has
/// ended.
caf::behavior end_watch(caf::event_based_actor* self,
                        caf::strong_actor_ptr watched, main_loop* loop,
                        std::function<void()> then);

/// Ends an actor, whatever messages it takes, and waits for it.
void end_actor(caf::actor_system& system, const caf::strong_actor_ptr& what);

/// Does the same for the actor of a typed handle.
template <class Handle>
void end_actor(caf::actor_system& system, const Handle& what) {
  end_actor(system, caf::actor_cast<caf::strong_actor_ptr>(what));
}

} // namespace vgpu
