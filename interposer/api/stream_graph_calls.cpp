// Entry points of graphs that take a stream: capture and launch. Compiled
// twice: see flavour.hpp.
#include "interposer/api/flavour.hpp"

#include "interposer/api/graph_entry.hpp"
#include "interposer/graph/capture.hpp"

using namespace vgpu::interposer;

namespace {

/// Finds the nodes, and the edges by which the next node depends on them.
CUresult find_tips(const graph& in, const CUgraphNode* handles,
                   const CUgraphEdgeData* edges, std::size_t count,
                   capture_tips& out) {
  std::vector<graph_node*> nodes;
  if (auto code = find_nodes(in, handles, count, nodes); code != CUDA_SUCCESS)
    return code;
  for (std::size_t i = 0; i < count; ++i) {
    auto edge = edges == nullptr ? CUgraphEdgeData{} : edges[i];
    // The next node is not known yet, and every edge may lead to a kernel.
    if (auto code = check_edge(edge, *nodes[i], kernel_work{});
        code != CUDA_SUCCESS)
      return code;
    out.push_back({nodes[i], edge});
  }
  return CUDA_SUCCESS;
}

CUresult find_in_capture(stream& s, const CUgraphNode* handles,
                         const CUgraphEdgeData* edges, std::size_t count,
                         capture_tips& out) {
  capture_facts facts;
  if (auto code = facts_of_capture(s, facts); code != CUDA_SUCCESS)
    return code;
  auto* in = find_graph(facts.graph);
  return in == nullptr ? CUDA_ERROR_ILLEGAL_STATE
                       : find_tips(*in, handles, edges, count, out);
}

CUresult tell_capture(CUstream handle, CUstreamCaptureStatus* status,
                      cuuint64_t* id, CUgraph* graph_out,
                      const CUgraphNode** after, const CUgraphEdgeData** edges,
                      std::size_t* count) noexcept {
  return guarded([&]() -> CUresult {
    stream* s = nullptr;
    if (auto why = find_usable_stream(handle, per_thread, s);
        why != CUDA_SUCCESS)
      return why;
    if (status == nullptr || (edges != nullptr && after == nullptr))
      return CUDA_ERROR_INVALID_VALUE;
    capture_facts facts;
    if (auto code = facts_of_capture(*s, facts); code != CUDA_SUCCESS)
      return code;
    if (after != nullptr && edges == nullptr &&
        !are_plain(facts.edges, facts.count))
      return CUDA_ERROR_LOSSY_QUERY;
    *status = facts.status;
    if (facts.status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
      return CUDA_SUCCESS;
    if (id != nullptr)
      *id = facts.id;
    if (graph_out != nullptr)
      *graph_out = facts.graph;
    if (after != nullptr)
      *after = facts.after;
    if (edges != nullptr)
      *edges = facts.edges;
    if (count != nullptr)
      *count = facts.count;
    return CUDA_SUCCESS;
  });
}

CUresult change_dependencies(CUstream handle, const CUgraphNode* nodes,
                             const CUgraphEdgeData* edges, std::size_t count,
                             unsigned flags) noexcept {
  return in_stream(handle, [&](stream& s) -> CUresult {
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
      return CUDA_ERROR_INVALID_VALUE;
    capture_tips after;
    if (auto code = find_in_capture(s, nodes, edges, count, after);
        code != CUDA_SUCCESS)
      return code;
    return set_capture_dependencies(
        s, after, flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES);
  });
}

} // namespace

// -- capture
// -----------------------------------------------------------------------------

CUresult CUDAAPI cuStreamBeginCapture(CUstream hStream,
                                      CUstreamCaptureMode mode) {
  return in_stream(
      hStream, [&](stream& s) { return begin_capture(s, mode, nullptr, {}); });
}

CUresult CUDAAPI cuStreamBeginCaptureToGraph(
    CUstream hStream, CUgraph hGraph, const CUgraphNode* dependencies,
    const CUgraphEdgeData* dependencyData, size_t numDependencies,
    CUstreamCaptureMode mode) {
  return in_stream(hStream, [&](stream& s) -> CUresult {
    auto* into = find_graph(hGraph);
    capture_tips after;
    if (into == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    if (auto code = find_tips(*into, dependencies, dependencyData,
                              numDependencies, after);
        code != CUDA_SUCCESS)
      return code;
    return begin_capture(s, mode, into, std::move(after));
  });
}

/// A program that captured into a graph of its own needs no place for it.
CUresult CUDAAPI cuStreamEndCapture(CUstream hStream, CUgraph* phGraph) {
  return in_stream(hStream, [&](stream& s) {
    CUgraph unused = nullptr;
    return end_capture(s, phGraph == nullptr ? unused : *phGraph,
                       phGraph != nullptr);
  });
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream hStream,
                                     CUstreamCaptureStatus* captureStatus) {
  return tell_capture(hStream, captureStatus, nullptr, nullptr, nullptr,
                      nullptr, nullptr);
}

CUresult CUDAAPI cuStreamGetCaptureInfo(
    CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
    cuuint64_t* id_out, CUgraph* graph_out,
    const CUgraphNode** dependencies_out, const CUgraphEdgeData** edgeData_out,
    size_t* numDependencies_out) {
  return tell_capture(hStream, captureStatus_out, id_out, graph_out,
                      dependencies_out, edgeData_out, numDependencies_out);
}

CUresult CUDAAPI
cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode* dependencies,
                                  const CUgraphEdgeData* dependencyData,
                                  size_t numDependencies, unsigned int flags) {
  return change_dependencies(hStream, dependencies, dependencyData,
                             numDependencies, flags);
}

extern "C" {
CUresult VGPU_FLAVOURED(begin_capture_v1)(CUstream handle)
    VGPU_EXPORT_AS(VGPU_PTSZ("cuStreamBeginCapture"));
CUresult VGPU_FLAVOURED(capture_info_v1)(CUstream handle,
                                         CUstreamCaptureStatus* status,
                                         cuuint64_t* id)
    VGPU_EXPORT_AS(VGPU_PTSZ("cuStreamGetCaptureInfo"));
CUresult VGPU_FLAVOURED(capture_info_v2)(CUstream handle,
                                         CUstreamCaptureStatus* status,
                                         cuuint64_t* id, CUgraph* graph_out,
                                         const CUgraphNode** dependencies,
                                         size_t* count)
    VGPU_EXPORT_AS(VGPU_PTSZ("cuStreamGetCaptureInfo_v2"));
CUresult VGPU_FLAVOURED(update_dependencies_v1)(CUstream handle,
                                                CUgraphNode* dependencies,
                                                size_t count, unsigned flags)
    VGPU_EXPORT_AS(VGPU_PTSZ("cuStreamUpdateCaptureDependencies"));
}
CUresult VGPU_FLAVOURED(begin_capture_v1)(CUstream handle) {
  return in_stream(handle, [](stream& s) {
    return begin_capture(s, CU_STREAM_CAPTURE_MODE_GLOBAL, nullptr, {});
  });
}
CUresult VGPU_FLAVOURED(capture_info_v1)(CUstream handle,
                                         CUstreamCaptureStatus* status,
                                         cuuint64_t* id) {
  return tell_capture(handle, status, id, nullptr, nullptr, nullptr, nullptr);
}
CUresult VGPU_FLAVOURED(capture_info_v2)(CUstream handle,
                                         CUstreamCaptureStatus* status,
                                         cuuint64_t* id, CUgraph* graph_out,
                                         const CUgraphNode** dependencies,
                                         size_t* count) {
  return tell_capture(handle, status, id, graph_out, dependencies, nullptr,
                      count);
}
CUresult VGPU_FLAVOURED(update_dependencies_v1)(CUstream handle,
                                                CUgraphNode* dependencies,
                                                size_t count, unsigned flags) {
  return change_dependencies(handle, dependencies, nullptr, count, flags);
}

namespace {

/// Says why a graph cannot be instantiated, and which node is the reason.
CUgraphInstantiateResult why_not(CUgraph handle, CUgraphNode& node) {
  auto* x = find_graph(handle);
  if (x == nullptr)
    return CUDA_GRAPH_INSTANTIATE_ERROR;
  if (auto* wrong = x->in_cycle(); wrong != nullptr) {
    node = wrong->handle;
    return CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
  }
  return x->uses_all_conditions()
             ? CUDA_GRAPH_INSTANTIATE_ERROR
             : CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
}

} // namespace

// -- launch
// -----------------------------------------------------------------------------

CUresult CUDAAPI cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream) {
  call_arguments given{__func__, hGraphExec, hStream};
  return in_stream(hStream, [&](stream& s) -> CUresult {
    auto* x = graph_execs().find(hGraphExec);
    if (x == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    return s.is_captured() ? refuse_in_capture(s) : launch(*x, s);
  });
}

CUresult CUDAAPI cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream) {
  return in_stream(hStream, [&](stream&) {
    auto* x = graph_execs().find(hGraphExec);
    return x == nullptr ? CUDA_ERROR_INVALID_VALUE : upload(*x);
  });
}

CUresult CUDAAPI
cuGraphInstantiateWithParams(CUgraphExec* phGraphExec, CUgraph hGraph,
                             CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams) {
  return guarded([&]() -> CUresult {
    if (instantiateParams == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    auto& p = *instantiateParams;
    p.hErrNode_out = nullptr;
    constexpr std::uint64_t and_upload = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
    auto code = instantiate(phGraphExec, hGraph, p.flags & ~and_upload);
    // Where memory does not fit now, the launch reports it.
    if (code == CUDA_SUCCESS && (p.flags & and_upload) != 0)
      (void)upload(*graph_execs().find(*phGraphExec));
    p.result_out = code == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS
                                        : why_not(hGraph, p.hErrNode_out);
    return code;
  });
}
