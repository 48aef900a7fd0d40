// The part of the driver's state that belongs to graph/.
#pragma once

#include "interposer/graph/capture_list.hpp"
#include "interposer/graph/graph.hpp"
#include "interposer/graph/graph_condition.hpp"
#include "interposer/graph/graph_memory.hpp"
#include "interposer/graph/launch_lanes.hpp"
#include "interposer/session/state_part.hpp"

#include <array>
#include <atomic>
#include <cstdint>

namespace vgpu::interposer {

struct context_part;
struct memory_part;
struct session_part;
struct stream_part;

/// Owns all graphs, captures, and the resources of launches.
struct graph_part : state_part<graph_part> {
  /// Registers stream capture with streams, memory of graphs with memory, and
  /// launches under way with the hook that runs before something is freed.
  graph_part(session_part& session, context_part& contexts,
             stream_part& streams, memory_part& memory);

  /// Holds all graphs, of the program and of nodes.
  handle_table<graph*> graphs{handle_kind::graph};
  program_graphs of_program;
  handle_table<node_reference> nodes{handle_kind::graph_node};
  handle_table<graph_exec> execs{handle_kind::graph_exec};
  handle_table<user_object> user_objects{handle_kind::user_object};
  /// Holds the latest id of a node. Clones of a node have the same id.
  std::atomic<std::uint64_t> last_node{0};

  capture_list captures;

  std::array<word_store, 64> words; ///< by device
  condition_table conditions;
  lane_store lanes;
  graph_memory_list memory;
};

} // namespace vgpu::interposer
