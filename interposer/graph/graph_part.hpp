// What graph/ has of the driver's state.
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

/// graph/ owns all graphs, captures, and what launches use.
struct graph_part : state_part<graph_part> {
  /// Registers capture with streams, memory of graphs with memory, and launches
  /// that are under way with whatever frees something.
  graph_part(session_part& session, context_part& contexts,
             stream_part& streams, memory_part& memory);

  /// The table holds all graphs, whoever they belong to.
  handle_table<graph*> graphs{handle_kind::graph};
  program_graphs of_program;
  handle_table<node_reference> nodes{handle_kind::graph_node};
  handle_table<graph_exec> execs{handle_kind::graph_exec};
  handle_table<user_object> user_objects{handle_kind::user_object};
  /// This is the latest id of a node; clones of a node have the same.
  std::atomic<std::uint64_t> last_node{0};

  capture_list captures;

  std::array<word_store, 64> words; ///< by device
  condition_table conditions;
  lane_store lanes;
  graph_memory_list memory;
};

} // namespace vgpu::interposer
