// The sequences that are under capture.
#pragma once

#include "interposer/graph/graph.hpp"
#include "interposer/stream/stream_event.hpp"

#include <cuda.h>

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace vgpu::interposer {

/// Says on which node the next one depends, and with which edge.
struct capture_tip {
  graph_node* node = nullptr;
  CUgraphEdgeData edge{};
};
using capture_tips = std::vector<capture_tip>;

/// Describes a sequence under capture: the streams that are part of it, and for
/// each stream the nodes that its next node depends on.
struct capture {
  std::uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  stream* origin = nullptr;
  /// Null where the capture goes into a graph of the program.
  std::unique_ptr<graph> own;
  graph* into = nullptr;
  bool broken = false;
  std::map<stream*, capture_tips> tips;
  capture_tips loose; ///< tips of destroyed streams
  /// Holds the lists that facts_of_capture() returned to the program.
  struct told_lists {
    std::vector<CUgraphNode> nodes;
    std::vector<CUgraphEdgeData> edges;
  };
  std::map<stream*, told_lists> told;
  std::map<event*, capture_tips> recorded;
};

/// Holds all sequences under capture. The mutex guards all state of captures.
struct capture_list {
  std::mutex mutex;
  std::list<capture> all;
  std::uint64_t last_id = 0;
};

} // namespace vgpu::interposer
