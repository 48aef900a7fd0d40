// What vgpu-manager and vgpu-node have in common.
#pragma once

#include "nodes/support/main_loop.hpp"

#include <caf/all.hpp>
#include <CLI/CLI.hpp>

#include <string>

namespace vgpu {

/// How a daemon is tied to who started it; both descriptors are inherited, and
/// -1 when there is none.
struct daemon_ties {
  /// Gets one line when the daemon is ready, and is closed.
  int ready_fd = -1;
  /// Its end of file tells the daemon to end: the owner is gone.
  int owner_fd = -1;
  /// The run directory goes with the last of those that are told so.
  bool remove_run_dir = false;
};

/// Describes the options, none of which a user has to know.
void describe(CLI::App& app, daemon_ties& ties);

/// Writes `line` to ready_fd and closes it.
void say_ready(daemon_ties& ties, const std::string& line);

/// An actor that runs `then` on the main thread when `watched` has ended.
caf::behavior end_watch(caf::event_based_actor* self, caf::actor watched,
                        main_loop* loop, std::function<void()> then);

/// Ends an actor and waits for it.
void end_actor(caf::actor_system& system, const caf::actor& what);

} // namespace vgpu
