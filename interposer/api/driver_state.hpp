// The state of the program's use of CUDA, in one object.
#pragma once

#include "interposer/api/notifications.hpp"
#include "interposer/code/code_part.hpp"
#include "interposer/context/context_part.hpp"
#include "interposer/cupti/cupti_part.hpp"
#include "interposer/graph/graph_part.hpp"
#include "interposer/memory/memory_part.hpp"
#include "interposer/nvml/nvml_part.hpp"
#include "interposer/session/session_part.hpp"
#include "interposer/stream/stream_part.hpp"

namespace vgpu::interposer {

/// Owns the tables that only entry points use.
struct api_part : state_part<api_part> {
  handle_table<notification> notifications{handle_kind::notification};
};

/// Holds a part for each folder, made in the order in which folders may include
/// each other. A part registers its steps with the parts before it
/// (docs/decisions/0015-interposer.md). Callers reach a part by its own get().
/// Only the session is separate (session/process.hpp), because a process that
/// has only counted devices may still get another session.
///
/// Each process has one. The first call that needs it makes it, and nothing
/// destroys it, because threads and atexit handlers may call until the process
/// ends. The child of a fork has its parent's state.
struct driver_state {
  session_part session;
  context_part contexts;
  stream_part streams{contexts};
  memory_part memory{session, contexts};
  code_part code{contexts};
  graph_part graphs{session, contexts, streams, memory};
  nvml_part nvml;
  cupti_part cupti;
  api_part api;
};

/// Makes the driver's state unless it exists. Entry points that work before
/// cuInit call this first; cuInit does it for all others. Returns false when
/// there is not enough memory. Thread-safe.
bool make_driver_state() noexcept;

} // namespace vgpu::interposer
