// Entry points for memory that graphs allocate, and for child graphs that are
// moved, because only those may have such memory.
#include "interposer/api/graph_entry.hpp"

#include "interposer/graph/graph_memory.hpp"
#include "interposer/session/session.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

using namespace vgpu::interposer;

namespace {

template <class Body>
CUresult with_memory_device(CUdevice dev, const Body& body) noexcept {
  return guarded([&]() -> CUresult {
    if (dev < 0 || static_cast<std::size_t>(dev) >= here().devices().size())
      return CUDA_ERROR_INVALID_DEVICE;
    return body(static_cast<std::uint8_t>(dev));
  });
}

/// Moves the program's graph into a node.
CUresult move_child(const graph& into, CUgraph handle, child_work& out) {
  if (handle == into.handle)
    return CUDA_ERROR_INVALID_VALUE;
  auto* named = find_graph(handle);
  if (named == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (named->held_by != graph::holder::program || named->has_conditions())
    return CUDA_ERROR_NOT_SUPPORTED;
  out.what = take_from_program(handle);
  if (out.what == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  out.what->held_by = graph::holder::moved;
  return CUDA_SUCCESS;
}

/// Adds an allocation. Both versions of the struct have the same members.
CUresult add_allocation(graph& into, CUDA_MEM_ALLOC_NODE_PARAMS_v2& from,
                        work& out) {
  CUDA_MEM_ALLOC_NODE_PARAMS params{};
  static_assert(sizeof(params) == sizeof(from));
  std::memcpy(&params, &from, sizeof(params));
  allocation_work what;
  auto code = describe_allocation(into, params, what);
  if (code != CUDA_SUCCESS)
    return code;
  from.dptr = params.dptr;
  out = std::move(what);
  return CUDA_SUCCESS;
}

} // namespace

namespace vgpu::interposer {

CUresult copy_child(const graph& from, child_work& out) {
  if (from.is_single() || from.held_by == graph::holder::moved ||
      from.held_by == graph::holder::body)
    return CUDA_ERROR_NOT_SUPPORTED;
  out.what = from.clone();
  out.what->held_by = graph::holder::node;
  return CUDA_SUCCESS;
}

CUresult describe_allocation(graph& into, CUDA_MEM_ALLOC_NODE_PARAMS& from,
                             allocation_work& out) {
  auto* current = current_context();
  if (auto why = usable(current); why != CUDA_SUCCESS)
    return why;
  auto code = describe(from, *current, into, out);
  if (code == CUDA_SUCCESS)
    from.dptr = out.what->address;
  return code;
}

CUresult describe_in(graph& into, CUgraphNodeParams& from, work& out) {
  if (from.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
    return add_allocation(into, from.alloc, out);
  if (from.type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
    return std::any_of(std::begin(from.reserved0), std::end(from.reserved0),
                       [](int x) { return x != 0; })
               ? CUDA_ERROR_INVALID_VALUE
               : describe_conditional(into, from.conditional, out);
  if (from.type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
    free_work what;
    auto code = describe_free(from.free.dptr, into, what);
    if (code == CUDA_SUCCESS)
      out = std::move(what);
    return code;
  }
  if (from.type != CU_GRAPH_NODE_TYPE_GRAPH ||
      from.graph.ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE)
    return describe(from, out);
  child_work what;
  auto code = move_child(into, from.graph.graph, what);
  if (code == CUDA_SUCCESS)
    out = std::move(what);
  return code;
}

} // namespace vgpu::interposer

// -- nodes
// -----------------------------------------------------------------------------

CUresult CUDAAPI cuGraphAddMemAllocNode(
    CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
    size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS* nodeParams) {
  return add_node_of<allocation_work>(
      phGraphNode, hGraph, dependencies, numDependencies,
      [&](graph& x, allocation_work& what) {
        return nodeParams == nullptr
                   ? CUDA_ERROR_INVALID_VALUE
                   : describe_allocation(x, *nodeParams, what);
      });
}

CUresult CUDAAPI cuGraphAddMemFreeNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                       const CUgraphNode* dependencies,
                                       size_t numDependencies,
                                       CUdeviceptr dptr) {
  return add_node_of<free_work>(
      phGraphNode, hGraph, dependencies, numDependencies,
      [&](graph& x, free_work& what) { return describe_free(dptr, x, what); });
}

CUresult CUDAAPI cuGraphMemAllocNodeGetParams(
    CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS* params_out) {
  return with_work<allocation_work>(hNode, [&](graph_node&, auto& w) {
    if (params_out == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *params_out = w.what->params();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphMemFreeNodeGetParams(CUgraphNode hNode,
                                             CUdeviceptr* dptr_out) {
  return with_work<free_work>(hNode, [&](graph_node&, auto& w) {
    if (dptr_out == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *dptr_out = w.what->address;
    return CUDA_SUCCESS;
  });
}

// -- unused memory and attributes
// -----------------------------------------------------------------------------

CUresult CUDAAPI cuDeviceGetGraphMemAttribute(CUdevice device,
                                              CUgraphMem_attribute attr,
                                              void* value) {
  return with_memory_device(device, [&](std::uint8_t on) {
    std::uint64_t bytes = 0;
    if (value == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    auto code = graph_memory_attribute(on, attr, bytes);
    if (code == CUDA_SUCCESS)
      *static_cast<cuuint64_t*>(value) = bytes;
    return code;
  });
}

CUresult CUDAAPI cuDeviceSetGraphMemAttribute(CUdevice device,
                                              CUgraphMem_attribute attr,
                                              void* value) {
  return with_memory_device(device, [&](std::uint8_t on) {
    return value == nullptr
               ? CUDA_ERROR_INVALID_VALUE
               : reset_graph_memory_attribute(
                     on, attr, *static_cast<const cuuint64_t*>(value));
  });
}

CUresult CUDAAPI cuDeviceGraphMemTrim(CUdevice device) {
  return with_memory_device(device, [](std::uint8_t on) {
    trim_graph_memory(on);
    return CUDA_SUCCESS;
  });
}
