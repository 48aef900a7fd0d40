// Entry points for executable graphs.
#include "interposer/api/graph_entry.hpp"

#include "interposer/memory/memory.hpp"

#include <algorithm>
#include <cstring>

using namespace vgpu::interposer;

namespace {

constexpr std::uint64_t known_instantiate_flags =
    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
    CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

template <class Work, class Params>
CUresult set_described(CUgraphExec exec, CUgraphNode node,
                       const Params* params) noexcept {
  return set_exec_work<Work>(exec, node, [&](auto&, auto&, Work& fresh) {
    return params == nullptr ? CUDA_ERROR_INVALID_VALUE
                             : describe(*params, fresh);
  });
}

template <class Work>
CUresult set_event(CUgraphExec exec, CUgraphNode node, CUevent event) noexcept {
  return set_exec_work<Work>(exec, node, [&](auto&, auto&, Work& fresh) {
    fresh.event = event;
    return events().find(event) == nullptr ? CUDA_ERROR_INVALID_VALUE
                                           : CUDA_SUCCESS;
  });
}

bool can_be_disabled(const graph_node& x) {
  auto type = type_of(x.what);
  return type == CU_GRAPH_NODE_TYPE_KERNEL ||
         type == CU_GRAPH_NODE_TYPE_MEMCPY || type == CU_GRAPH_NODE_TYPE_MEMSET;
}

CUresult set_kernel(CUgraphExec exec, CUgraphNode node,
                    const CUDA_KERNEL_NODE_PARAMS* params) noexcept {
  return set_exec_work<kernel_work>(
      exec, node, [&](graph_exec& x, kernel_work& old, kernel_work& fresh) {
        if (params == nullptr)
          return CUDA_ERROR_INVALID_VALUE;
        auto code = describe(*params, x.owner, fresh);
        fresh.keep_attributes_of(old);
        return code;
      });
}

} // namespace

namespace vgpu::interposer {

namespace {

/// Tells whether a body, or a child graph in one, may have this work.
bool fits_body(const work& x) {
  switch (type_of(x)) {
  case CU_GRAPH_NODE_TYPE_KERNEL:
  case CU_GRAPH_NODE_TYPE_EMPTY:
  case CU_GRAPH_NODE_TYPE_MEMSET:
  case CU_GRAPH_NODE_TYPE_CONDITIONAL:
    return true;
  case CU_GRAPH_NODE_TYPE_MEMCPY: {
    const auto& copied = std::get<copy_work>(x).what;
    return locate_planned(copied.to.address).where != place::pageable &&
           locate_planned(copied.from.address).where != place::pageable;
  }
  case CU_GRAPH_NODE_TYPE_GRAPH: {
    const auto& nodes = std::get<child_work>(x).what->nodes();
    return std::all_of(nodes.begin(), nodes.end(),
                       [](auto& node) { return fits_body(node->what); });
  }
  default:
    return false;
  }
}

/// Tells whether all bodies contain only work that bodies may have.
bool bodies_are_possible(const graph& x) {
  auto is_possible = [](const graph& body) {
    return std::all_of(body.nodes().begin(), body.nodes().end(),
                       [](auto& node) { return fits_body(node->what); }) &&
           bodies_are_possible(body);
  };
  return std::all_of(x.nodes().begin(), x.nodes().end(), [&](auto& node) {
    auto* chosen = std::get_if<conditional_work>(&node->what);
    return chosen == nullptr ||
           std::all_of(chosen->bodies.begin(), chosen->bodies.end(),
                       [&](auto& body) { return is_possible(*body); });
  });
}

} // namespace

CUresult instantiate(CUgraphExec* out, CUgraph handle, std::uint64_t flags) {
  return in_context([&](context& in) {
    auto* x = find_graph(handle);
    if (out == nullptr || x == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    // A launch from a kernel needs the graph on the device.
    if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0)
      return CUDA_ERROR_NOT_SUPPORTED;
    if ((flags & ~known_instantiate_flags) != 0 || x->has_cycle())
      return CUDA_ERROR_INVALID_VALUE;
    if (x->held_by == graph::holder::moved ||
        x->held_by == graph::holder::body || !x->instance.expired())
      return CUDA_ERROR_NOT_SUPPORTED;
    if (!x->uses_all_conditions() || !bodies_are_possible(*x))
      return CUDA_ERROR_INVALID_VALUE;
    *out = to_handle<CUgraphExec>(
        graph_execs().add(std::make_unique<graph_exec>(in, *x, flags)));
    return CUDA_SUCCESS;
  });
}

} // namespace vgpu::interposer

CUresult CUDAAPI cuGraphInstantiate(CUgraphExec* phGraphExec, CUgraph hGraph,
                                    unsigned long long flags) {
  return instantiate(phGraphExec, hGraph, flags);
}

extern "C" {
CUresult graph_instantiate_v1(CUgraphExec* out, CUgraph handle,
                              CUgraphNode* error_node, char* log,
                              size_t log_bytes)
    VGPU_EXPORT_AS("cuGraphInstantiate");
CUresult graph_instantiate_v2(CUgraphExec* out, CUgraph handle,
                              CUgraphNode* error_node, char* log,
                              size_t log_bytes)
    VGPU_EXPORT_AS("cuGraphInstantiate_v2");
CUresult graph_update_v1(CUgraphExec exec, CUgraph handle,
                         CUgraphNode* error_node,
                         CUgraphExecUpdateResult* result)
    VGPU_EXPORT_AS("cuGraphExecUpdate");
CUresult graph_exec_kernel_v1(CUgraphExec exec, CUgraphNode node,
                              const CUDA_KERNEL_NODE_PARAMS_v1* params)
    VGPU_EXPORT_AS("cuGraphExecKernelNodeSetParams");
}
CUresult graph_instantiate_v1(CUgraphExec* out, CUgraph handle,
                              CUgraphNode* error_node, char* log,
                              size_t log_bytes) {
  if (error_node != nullptr)
    *error_node = nullptr;
  if (log != nullptr && log_bytes != 0)
    *log = '\0';
  return instantiate(out, handle, 0);
}
CUresult graph_instantiate_v2(CUgraphExec* out, CUgraph handle,
                              CUgraphNode* error_node, char* log,
                              size_t log_bytes) {
  return graph_instantiate_v1(out, handle, error_node, log, log_bytes);
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec hGraphExec) {
  return guarded([&] {
    return graph_execs().remove(hGraphExec) ? CUDA_SUCCESS
                                            : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult CUDAAPI cuGraphExecGetFlags(CUgraphExec hGraphExec,
                                     cuuint64_t* flags) {
  return with_exec(hGraphExec, [&](graph_exec& x) {
    if (flags == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *flags = x.flags;
    return CUDA_SUCCESS;
  });
}

// -- changing
// -----------------------------------------------------------------------------

CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph,
                                   CUgraphExecUpdateResultInfo* resultInfo) {
  return with_exec(hGraphExec, [&](graph_exec& x) {
    auto* from = find_graph(hGraph);
    if (from == nullptr || resultInfo == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    return update(x, *from, *resultInfo);
  });
}

CUresult graph_update_v1(CUgraphExec exec, CUgraph handle,
                         CUgraphNode* error_node,
                         CUgraphExecUpdateResult* result) {
  CUgraphExecUpdateResultInfo info{};
  auto code = cuGraphExecUpdate(exec, handle, &info);
  if (error_node != nullptr)
    *error_node = info.errorNode;
  if (result != nullptr)
    *result = info.result;
  return code;
}

CUresult CUDAAPI
cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                               const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return set_kernel(hGraphExec, hNode, nodeParams);
}
CUresult graph_exec_kernel_v1(CUgraphExec exec, CUgraphNode node,
                              const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  if (params == nullptr)
    return guarded([] { return CUDA_ERROR_INVALID_VALUE; });
  CUDA_KERNEL_NODE_PARAMS wide{};
  std::memcpy(&wide, params, sizeof(*params));
  return set_kernel(exec, node, &wide);
}

CUresult CUDAAPI cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec,
                                                CUgraphNode hNode,
                                                const CUDA_MEMCPY3D* copyParams,
                                                CUcontext) {
  return set_described<copy_work>(hGraphExec, hNode, copyParams);
}
CUresult CUDAAPI cuGraphExecMemsetNodeSetParams(
    CUgraphExec hGraphExec, CUgraphNode hNode,
    const CUDA_MEMSET_NODE_PARAMS* memsetParams, CUcontext) {
  return set_described<fill_work>(hGraphExec, hNode, memsetParams);
}
CUresult CUDAAPI
cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                             const CUDA_HOST_NODE_PARAMS* nodeParams) {
  return set_described<host_work>(hGraphExec, hNode, nodeParams);
}
CUresult CUDAAPI cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec,
                                                    CUgraphNode hNode,
                                                    CUevent event) {
  return set_event<event_record_work>(hGraphExec, hNode, event);
}
CUresult CUDAAPI cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec,
                                                  CUgraphNode hNode,
                                                  CUevent event) {
  return set_event<event_wait_work>(hGraphExec, hNode, event);
}

CUresult CUDAAPI cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec,
                                                    CUgraphNode hNode,
                                                    CUgraph childGraph) {
  return set_exec_work<child_work>(hGraphExec, hNode,
                                   [&](auto&, auto&, child_work& fresh) {
                                     auto* child = find_graph(childGraph);
                                     if (child == nullptr)
                                       return CUDA_ERROR_INVALID_VALUE;
                                     return copy_child(*child, fresh);
                                   });
}

CUresult CUDAAPI cuGraphExecNodeSetParams(CUgraphExec hGraphExec,
                                          CUgraphNode hNode,
                                          CUgraphNodeParams* nodeParams) {
  return with_node_of(hGraphExec, hNode, [&](graph_exec&, graph_node& mine) {
    work fresh;
    if (nodeParams == nullptr || nodeParams->type != type_of(mine.what))
      return CUDA_ERROR_INVALID_VALUE;
    auto code = describe(*nodeParams, fresh);
    if (code != CUDA_SUCCESS)
      return code;
    keep_attributes(fresh, mine.what);
    mine.in->set_work(mine, std::move(fresh));
    return code;
  });
}

CUresult CUDAAPI cuGraphNodeSetEnabled(CUgraphExec hGraphExec,
                                       CUgraphNode hNode,
                                       unsigned int isEnabled) {
  return with_node_of(hGraphExec, hNode, [&](graph_exec&, graph_node& mine) {
    if (!can_be_disabled(mine))
      return CUDA_ERROR_INVALID_VALUE;
    mine.enabled = isEnabled != 0;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphNodeGetEnabled(CUgraphExec hGraphExec,
                                       CUgraphNode hNode,
                                       unsigned int* isEnabled) {
  return with_node_of(hGraphExec, hNode, [&](graph_exec&, graph_node& mine) {
    if (isEnabled == nullptr || !can_be_disabled(mine))
      return CUDA_ERROR_INVALID_VALUE;
    *isEnabled = mine.enabled ? 1 : 0;
    return CUDA_SUCCESS;
  });
}
