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

/// A sequence under capture has streams that are part of it, and the nodes that
/// the next one of each depends on.
struct capture {
  std::uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  stream* origin = nullptr;
  /// This is null where the capture goes into a graph of the program.
  std::unique_ptr<graph> own;
  graph* into = nullptr;
  bool broken = false;
  std::map<stream*, std::vector<graph_node*>> tips;
  std::vector<graph_node*> loose; ///< These are tips of streams that are gone.
  /// facts_of_capture() gave these out.
  std::map<stream*, std::vector<CUgraphNode>> told;
  std::map<event*, std::vector<graph_node*>> recorded;
};

/// The list holds all sequences under capture. The mutex guards everything
/// about captures.
struct capture_list {
  std::mutex mutex;
  std::list<capture> all;
  std::uint64_t last_id = 0;
};

} // namespace vgpu::interposer
