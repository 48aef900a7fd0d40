// All that this library knows about the program's use of CUDA, in one object.
#pragma once

#include "interposer/api/notifications.hpp"
#include "interposer/code/code_part.hpp"
#include "interposer/context/context_part.hpp"
#include "interposer/graph/graph_part.hpp"
#include "interposer/memory/memory_part.hpp"
#include "interposer/nvml/nvml_part.hpp"
#include "interposer/session/session_part.hpp"
#include "interposer/stream/stream_part.hpp"

namespace vgpu::interposer {

/// api/ owns the tables that belong to entry points alone.
struct api_part : state_part<api_part> {
  handle_table<notification> notifications{handle_kind::notification};
};

/// The state has a part for each folder, made in the order in which folders
/// may include each other. A part registers with those before it what
/// they are to do for it (docs/decisions/0015-interposer.md), and is reached by
/// its own get(). Only the session is apart (session/process.hpp), since a
/// process may get another one while it has done no more than count devices.
///
/// There is one a process. It is made by the first call that needs some of it,
/// and never destroyed: threads and atexit handlers may call until the very
/// end, and the child of a fork finds what its parent had.
struct driver_state {
  session_part session;
  context_part contexts;
  stream_part streams{contexts};
  memory_part memory{session, contexts};
  code_part code{contexts};
  graph_part graphs{session, contexts, streams, memory};
  nvml_part nvml;
  api_part api;
};

/// Makes the driver's state unless it is there already. Entry points that work
/// before cuInit call this before anything else; cuInit does it for all others.
/// False when there is no memory for it. Thread-safe.
bool make_driver_state() noexcept;

} // namespace vgpu::interposer
