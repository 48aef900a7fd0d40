// Stream capture: calls become nodes of a graph instead of being executed (CUDA
// driver API, "Stream Management", cuStreamBeginCapture).
#pragma once

#include "interposer/graph/capture_list.hpp"
#include "interposer/graph/graph.hpp"
#include "interposer/stream/capture_hooks.hpp"
#include "interposer/stream/stream_event.hpp"

#include <cuda.h>

#include <cstdint>
#include <span>

namespace vgpu::interposer {

/// Begins to capture `in`. The nodes go into the graph `into`, after its nodes
/// `after`, or into a new graph where `into` is null.
CUresult begin_capture(stream& in, CUstreamCaptureMode mode, graph* into,
                       capture_tips after);
/// Ends the capture that began at `in`. `out` is null where the capture was
/// broken. Where `keep` is false, a graph that the capture made is destroyed.
CUresult end_capture(stream& in, CUgraph& out, bool keep);

/// Describes the state of a stream's capture. The list is valid until the next
/// call about the stream.
struct capture_facts {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  std::uint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* after = nullptr;     ///< the dependencies of its next node
  const CUgraphEdgeData* edges = nullptr; ///< as many as dependencies
  std::size_t count = 0;
};
/// Returns the state of a stream's capture in `out`. Returns
/// CUDA_ERROR_STREAM_CAPTURE_IMPLICIT for the legacy stream while a stream that
/// it would wait for is captured.
CUresult facts_of_capture(stream& in, capture_facts& out);

/// Replaces, or extends, the nodes that the stream's next node depends on.
CUresult set_capture_dependencies(stream& in, const capture_tips& after,
                                  bool add);

/// Removes a stream that is about to be destroyed from its capture. A capture
/// that began at the stream ends with it.
void forget_captured(stream& x);
/// Removes an event that is about to be destroyed from its capture.
void forget_captured(event& x);

// -- calls under capture. Precondition: in.is_captured()
// -----------------------------------------------------------------------------

/// Adds a node after the stream's earlier nodes.
CUresult capture_work(stream& in, work what);
/// Adds a kernel node, and records the launch's events behind it. A kernel that
/// may overlap the previous one depends on it by a programmatic edge.
CUresult capture_kernel(stream& in, work kernel, const launch_attributes* with);
/// Adds a node that allocates, for cuMemAllocAsync.
CUresult capture_allocation(stream& in, int device, std::uint64_t bytes,
                            CUdeviceptr& out);
/// Adds a node that frees, for cuMemFreeAsync. An error does not break the
/// capture.
CUresult capture_free(stream& in, CUdeviceptr at);
/// Records an event in the capture, or adds a record node where it is external.
CUresult capture_record(event& x, stream& in, bool external);
/// Breaks the capture of a stream because of a call that is not allowed in it.
/// Returns the error of such a call.
CUresult refuse_in_capture(stream& in);

/// Waits for an event where the stream or the event is captured. The stream's
/// next node then depends on the nodes that the event represents. A stream that
/// was not captured joins the capture.
CUresult capture_wait(stream& in, event& x, bool external);
/// Breaks the capture in which an event was recorded, because the program may
/// not query the event. Returns the error of such a query.
CUresult refuse_captured(event& x);

// -- other calls during a capture
// -----------------------------------------------------------------------------

/// Returns CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and breaks the capture, where
/// one is under way and the thread's mode forbids calls that may wait.
CUresult check_unsafe_call();
/// Returns CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and breaks the captures,
/// where streams of the context are captured, in whatever mode and by whatever
/// thread. For a call that refers to all work of the context.
CUresult check_whole_context(const context& in);
/// Returns CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, and breaks the capture, where
/// work in the context's legacy stream would depend on a captured stream.
CUresult check_legacy_work(const context& in);

/// Returns the calling thread's mode (cuThreadExchangeStreamCaptureMode).
CUstreamCaptureMode& thread_capture_mode() noexcept;

} // namespace vgpu::interposer
