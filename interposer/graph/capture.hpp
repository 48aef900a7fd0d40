// Stream capture: calls that become nodes of a graph instead of being
// executed (CUDA Driver API, "Stream Management", cuStreamBeginCapture).
#pragma once

#include "interposer/graph/graph.hpp"
#include "interposer/stream/capture_hooks.hpp"
#include "interposer/stream/stream_event.hpp"

#include <cuda.h>

#include <cstdint>
#include <span>

namespace vgpu::interposer {

/// Begins to capture `in`: into `into`, behind its nodes `after`, or into a
/// new graph where that is null.
CUresult begin_capture(stream& in, CUstreamCaptureMode mode, graph* into,
                       std::span<graph_node* const> after);
/// Ends the capture that began at `in`; `out` is null where it was broken.
CUresult end_capture(stream& in, CUgraph& out);

/// What a stream's capture has come to. The list is valid until the next call
/// about this stream.
struct capture_facts {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  std::uint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* after = nullptr; ///< what its next node depends on
  std::size_t count = 0;
};
/// CUDA_ERROR_STREAM_CAPTURE_IMPLICIT for the legacy stream while a stream that
/// it would wait for is captured.
CUresult facts_of_capture(stream& in, capture_facts& out);

/// Replaces, or adds to, what the stream's next node depends on.
CUresult set_capture_dependencies(stream& in,
                                  std::span<graph_node* const> after, bool add);

/// Takes what is about to be destroyed out of the capture that it is part of.
/// The capture that began at this stream ends with it.
void forget_captured(stream& x);
void forget_captured(event& x);

// -- calls under capture. Precondition: in.is_captured()
// -----------------------------------------------------------------------------

/// Adds a node behind what the stream did before.
CUresult capture_work(stream& in, work what);
/// cuMemAllocAsync and cuMemFreeAsync: nodes that do it. What may not be freed
/// does not break the capture.
CUresult capture_allocation(stream& in, int device, std::uint64_t bytes,
                            CUdeviceptr& out);
CUresult capture_free(stream& in, CUdeviceptr at);
CUresult capture_record(event& x, stream& in, bool external);
/// What may not happen to a captured stream: breaks the capture.
CUresult refuse_in_capture(stream& in);

/// A wait where the stream or the event is captured: the stream's next node
/// depends on what the event stands for, and a stream that was not captured
/// is from now on.
CUresult capture_wait(stream& in, event& x, bool external);
/// Asking a captured event: breaks the capture.
CUresult refuse_captured(event& x);

// -- calls beside a capture
// -----------------------------------------------------------------------------

/// CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED where the thread's mode forbids calls
/// that may wait for work, and a capture is under way; breaks the capture.
CUresult check_unsafe_call();
/// CUDA_ERROR_STREAM_CAPTURE_IMPLICIT where work in the context's legacy
/// stream would depend on a captured stream; breaks the capture.
CUresult check_legacy_work(const context& in);

/// cuThreadExchangeStreamCaptureMode: the calling thread's mode.
CUstreamCaptureMode& thread_capture_mode() noexcept;

} // namespace vgpu::interposer
