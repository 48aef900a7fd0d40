// Entry points for the nodes of graphs and their parameters.
#include "interposer/api/graph_entry.hpp"

#include "interposer/memory/copies.hpp"

#include <cstring>

using namespace vgpu::interposer;

namespace {

/// Adds a node from the driver API's struct, which may be null.
template <class Work, class Params>
CUresult add_described(CUgraphNode* out, CUgraph in, const CUgraphNode* after,
                       std::size_t count, const Params* params) noexcept {
  return add_node<Work>(out, in, after, count, [&](Work& what) {
    return params == nullptr ? CUDA_ERROR_INVALID_VALUE
                             : describe(*params, what);
  });
}

CUresult describe_here(const CUDA_KERNEL_NODE_PARAMS* from, kernel_work& out) {
  auto* current = current_context();
  if (from == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (auto why = usable(current); why != CUDA_SUCCESS)
    return why;
  return describe(*from, *current, out);
}

CUDA_KERNEL_NODE_PARAMS widened(const CUDA_KERNEL_NODE_PARAMS_v1& x) {
  CUDA_KERNEL_NODE_PARAMS out{};
  // The newer struct has its additions at the end.
  std::memcpy(&out, &x, sizeof(x));
  return out;
}

CUresult add_event_node(CUgraphNode* out, CUgraph in, const CUgraphNode* after,
                        std::size_t count, CUevent event, bool waits) noexcept {
  if (waits)
    return add_node<event_wait_work>(out, in, after, count, [&](auto& what) {
      what.event = event;
      return events().find(event) == nullptr ? CUDA_ERROR_INVALID_VALUE
                                             : CUDA_SUCCESS;
    });
  return add_node<event_record_work>(out, in, after, count, [&](auto& what) {
    what.event = event;
    return events().find(event) == nullptr ? CUDA_ERROR_INVALID_VALUE
                                           : CUDA_SUCCESS;
  });
}

CUresult add_any(CUgraphNode* out, CUgraph in, const CUgraphNode* after,
                 const CUgraphEdgeData* edges, std::size_t count,
                 CUgraphNodeParams* params) noexcept {
  auto code = add_node_of<work>(
      out, in, after, count, [&](graph& x, work& what) -> CUresult {
        if (params == nullptr)
          return CUDA_ERROR_INVALID_VALUE;
        auto good = describe_in(x, *params, what);
        for (std::size_t i = 0;
             edges != nullptr && i < count && good == CUDA_SUCCESS; ++i)
          good = check_edge(edges[i], *find_node(after[i]), what);
        return good;
      });
  for (std::size_t i = 0; edges != nullptr && i < count && code == CUDA_SUCCESS;
       ++i)
    mark(*find_node(*out), *find_node(after[i]), edges[i]);
  return code;
}

} // namespace

namespace vgpu::interposer {

namespace {

template <class Work, class Params>
CUresult describe_as(const Params& from, work& out) {
  Work what;
  auto code = describe(from, what);
  if (code == CUDA_SUCCESS)
    out = std::move(what);
  return code;
}

} // namespace

CUresult describe(const CUgraphNodeParams& from, work& out) {
  switch (from.type) {
  case CU_GRAPH_NODE_TYPE_EMPTY:
    out = empty_work{};
    return CUDA_SUCCESS;
  case CU_GRAPH_NODE_TYPE_KERNEL: {
    CUDA_KERNEL_NODE_PARAMS params{};
    const auto& k = from.kernel;
    params.func = k.func;
    params.gridDimX = k.gridDimX;
    params.gridDimY = k.gridDimY;
    params.gridDimZ = k.gridDimZ;
    params.blockDimX = k.blockDimX;
    params.blockDimY = k.blockDimY;
    params.blockDimZ = k.blockDimZ;
    params.sharedMemBytes = k.sharedMemBytes;
    params.kernelParams = k.kernelParams;
    params.extra = k.extra;
    params.kern = k.kern;
    kernel_work what;
    auto code = describe_here(&params, what);
    if (code == CUDA_SUCCESS)
      out = std::move(what);
    return code;
  }
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    return describe_as<copy_work>(from.memcpy.copyParams, out);
  case CU_GRAPH_NODE_TYPE_MEMSET: {
    const auto& m = from.memset;
    return describe_as<fill_work>(
        CUDA_MEMSET_NODE_PARAMS{m.dst, m.pitch, m.value, m.elementSize, m.width,
                                m.height},
        out);
  }
  case CU_GRAPH_NODE_TYPE_HOST:
    return describe_as<host_work>(
        CUDA_HOST_NODE_PARAMS{from.host.fn, from.host.userData}, out);
  case CU_GRAPH_NODE_TYPE_GRAPH: {
    auto* child = find_graph(from.graph.graph);
    if (child == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    child_work what;
    auto code = copy_child(*child, what);
    out = std::move(what);
    return code;
  }
  case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    out = event_record_work{from.eventRecord.event};
    return events().find(from.eventRecord.event) == nullptr
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
  case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    out = event_wait_work{from.eventWait.event};
    return events().find(from.eventWait.event) == nullptr
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
  case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
    const auto& m = from.memOp;
    return describe_as<operations_work>(
        CUDA_BATCH_MEM_OP_NODE_PARAMS{m.ctx, m.count, m.paramArray, m.flags},
        out);
  }
  default:
    return CUDA_ERROR_NOT_SUPPORTED;
  }
}

} // namespace vgpu::interposer

// -- adding
// -----------------------------------------------------------------------------

CUresult CUDAAPI cuGraphAddEmptyNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                     const CUgraphNode* dependencies,
                                     size_t numDependencies) {
  return add_node<empty_work>(phGraphNode, hGraph, dependencies,
                              numDependencies,
                              [](auto&) { return CUDA_SUCCESS; });
}

CUresult CUDAAPI cuGraphAddKernelNode(
    CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
    size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return add_node<kernel_work>(
      phGraphNode, hGraph, dependencies, numDependencies,
      [&](auto& what) { return describe_here(nodeParams, what); });
}

CUresult CUDAAPI cuGraphAddMemcpyNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                      const CUgraphNode* dependencies,
                                      size_t numDependencies,
                                      const CUDA_MEMCPY3D* copyParams,
                                      CUcontext) {
  return add_described<copy_work>(phGraphNode, hGraph, dependencies,
                                  numDependencies, copyParams);
}

CUresult CUDAAPI
cuGraphAddMemsetNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                     const CUgraphNode* dependencies, size_t numDependencies,
                     const CUDA_MEMSET_NODE_PARAMS* memsetParams, CUcontext) {
  return add_described<fill_work>(phGraphNode, hGraph, dependencies,
                                  numDependencies, memsetParams);
}

CUresult CUDAAPI cuGraphAddHostNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                    const CUgraphNode* dependencies,
                                    size_t numDependencies,
                                    const CUDA_HOST_NODE_PARAMS* nodeParams) {
  return add_described<host_work>(phGraphNode, hGraph, dependencies,
                                  numDependencies, nodeParams);
}

CUresult CUDAAPI cuGraphAddChildGraphNode(CUgraphNode* phGraphNode,
                                          CUgraph hGraph,
                                          const CUgraphNode* dependencies,
                                          size_t numDependencies,
                                          CUgraph childGraph) {
  return add_node<child_work>(phGraphNode, hGraph, dependencies,
                              numDependencies, [&](auto& what) {
                                auto* child = find_graph(childGraph);
                                if (child == nullptr)
                                  return CUDA_ERROR_INVALID_VALUE;
                                return copy_child(*child, what);
                              });
}

CUresult CUDAAPI cuGraphAddEventRecordNode(CUgraphNode* phGraphNode,
                                           CUgraph hGraph,
                                           const CUgraphNode* dependencies,
                                           size_t numDependencies,
                                           CUevent event) {
  return add_event_node(phGraphNode, hGraph, dependencies, numDependencies,
                        event, false);
}

CUresult CUDAAPI cuGraphAddEventWaitNode(CUgraphNode* phGraphNode,
                                         CUgraph hGraph,
                                         const CUgraphNode* dependencies,
                                         size_t numDependencies,
                                         CUevent event) {
  return add_event_node(phGraphNode, hGraph, dependencies, numDependencies,
                        event, true);
}

CUresult CUDAAPI cuGraphAddNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                const CUgraphNode* dependencies,
                                const CUgraphEdgeData* dependencyData,
                                size_t numDependencies,
                                CUgraphNodeParams* nodeParams) {
  return add_any(phGraphNode, hGraph, dependencies, dependencyData,
                 numDependencies, nodeParams);
}

extern "C" {
CUresult graph_add_kernel_v1(CUgraphNode* out, CUgraph in,
                             const CUgraphNode* after, size_t count,
                             const CUDA_KERNEL_NODE_PARAMS_v1* params)
    VGPU_EXPORT_AS("cuGraphAddKernelNode");
CUresult graph_add_node_v1(CUgraphNode* out, CUgraph in,
                           const CUgraphNode* after, size_t count,
                           CUgraphNodeParams* params)
    VGPU_EXPORT_AS("cuGraphAddNode");
CUresult graph_kernel_get_v1(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* out)
    VGPU_EXPORT_AS("cuGraphKernelNodeGetParams");
CUresult graph_kernel_set_v1(CUgraphNode node,
                             const CUDA_KERNEL_NODE_PARAMS_v1* params)
    VGPU_EXPORT_AS("cuGraphKernelNodeSetParams");
}
CUresult graph_add_kernel_v1(CUgraphNode* out, CUgraph in,
                             const CUgraphNode* after, size_t count,
                             const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return add_node<kernel_work>(out, in, after, count, [&](auto& what) {
    if (params == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    auto wide = widened(*params);
    return describe_here(&wide, what);
  });
}
CUresult graph_add_node_v1(CUgraphNode* out, CUgraph in,
                           const CUgraphNode* after, size_t count,
                           CUgraphNodeParams* params) {
  return add_any(out, in, after, nullptr, count, params);
}

// -- removing and querying
// -----------------------------------------------------------------------------

CUresult CUDAAPI cuGraphDestroyNode(CUgraphNode hNode) {
  return with_node(hNode, [](graph_node& x) {
    if (x.in->has_memory())
      return CUDA_ERROR_NOT_SUPPORTED;
    x.in->remove(x);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType* type) {
  return with_node(hNode, [&](graph_node& x) {
    if (type == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *type = type_of(x.what);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphChildGraphNodeGetGraph(CUgraphNode hNode,
                                               CUgraph* phGraph) {
  return with_work<child_work>(hNode, [&](graph_node&, child_work& w) {
    if (phGraph == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *phGraph = w.what->handle;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphKernelNodeGetParams(
    CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return with_work<kernel_work>(hNode, [&](graph_node& x, kernel_work& w) {
    if (nodeParams == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *nodeParams = kernel_params(w, x.pointers);
    return CUDA_SUCCESS;
  });
}
CUresult graph_kernel_get_v1(CUgraphNode node,
                             CUDA_KERNEL_NODE_PARAMS_v1* out) {
  return with_work<kernel_work>(node, [&](graph_node& x, kernel_work& w) {
    if (out == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    auto wide = kernel_params(w, x.pointers);
    std::memcpy(out, &wide, sizeof(*out));
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphMemcpyNodeGetParams(CUgraphNode hNode,
                                            CUDA_MEMCPY3D* nodeParams) {
  return with_work<copy_work>(hNode, [&](graph_node&, copy_work& w) {
    if (nodeParams == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *nodeParams = copy_params(w);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphMemsetNodeGetParams(
    CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS* nodeParams) {
  return with_work<fill_work>(hNode, [&](graph_node&, fill_work& w) {
    if (nodeParams == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *nodeParams = w.what;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphHostNodeGetParams(CUgraphNode hNode,
                                          CUDA_HOST_NODE_PARAMS* nodeParams) {
  return with_work<host_work>(hNode, [&](graph_node&, host_work& w) {
    if (nodeParams == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *nodeParams = w.what;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphEventRecordNodeGetEvent(CUgraphNode hNode,
                                                CUevent* event_out) {
  return with_work<event_record_work>(hNode,
                                      [&](graph_node&, event_record_work& w) {
                                        if (event_out == nullptr)
                                          return CUDA_ERROR_INVALID_VALUE;
                                        *event_out = w.event;
                                        return CUDA_SUCCESS;
                                      });
}

CUresult CUDAAPI cuGraphEventWaitNodeGetEvent(CUgraphNode hNode,
                                              CUevent* event_out) {
  return with_work<event_wait_work>(hNode,
                                    [&](graph_node&, event_wait_work& w) {
                                      if (event_out == nullptr)
                                        return CUDA_ERROR_INVALID_VALUE;
                                      *event_out = w.event;
                                      return CUDA_SUCCESS;
                                    });
}

// -- changing
// -----------------------------------------------------------------------------

namespace {

/// Replaces a node's work by the work that `make` fills in, where the kind is
/// the same.
template <class Work, class Make>
CUresult set_work(CUgraphNode node, const Make& make) noexcept {
  return with_work<Work>(node, [&](graph_node& x, Work&) {
    Work fresh;
    auto code = make(fresh);
    if (code == CUDA_SUCCESS)
      x.in->set_work(x, std::move(fresh));
    return code;
  });
}

template <class Work, class Params>
CUresult set_described(CUgraphNode node, const Params* params) noexcept {
  return set_work<Work>(node, [&](Work& fresh) {
    return params == nullptr ? CUDA_ERROR_INVALID_VALUE
                             : describe(*params, fresh);
  });
}

template <class Work>
CUresult set_event(CUgraphNode node, CUevent event) noexcept {
  return set_work<Work>(node, [&](Work& fresh) {
    fresh.event = event;
    return events().find(event) == nullptr ? CUDA_ERROR_INVALID_VALUE
                                           : CUDA_SUCCESS;
  });
}

/// Sets a kernel node's parameters. Its attributes stay.
CUresult set_kernel(CUgraphNode node,
                    const CUDA_KERNEL_NODE_PARAMS* params) noexcept {
  return with_work<kernel_work>(node, [&](graph_node&, kernel_work& w) {
    kernel_work fresh;
    auto code = describe_here(params, fresh);
    if (code != CUDA_SUCCESS)
      return code;
    fresh.keep_attributes_of(w);
    w.take_over(std::move(fresh));
    return code;
  });
}

} // namespace

CUresult CUDAAPI cuGraphKernelNodeSetParams(
    CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return set_kernel(hNode, nodeParams);
}
CUresult graph_kernel_set_v1(CUgraphNode node,
                             const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  if (params == nullptr)
    return guarded([] { return CUDA_ERROR_INVALID_VALUE; });
  auto wide = widened(*params);
  return set_kernel(node, &wide);
}
CUresult CUDAAPI cuGraphMemcpyNodeSetParams(CUgraphNode hNode,
                                            const CUDA_MEMCPY3D* nodeParams) {
  return set_described<copy_work>(hNode, nodeParams);
}
CUresult CUDAAPI cuGraphMemsetNodeSetParams(
    CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS* nodeParams) {
  return set_described<fill_work>(hNode, nodeParams);
}
CUresult CUDAAPI cuGraphHostNodeSetParams(
    CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS* nodeParams) {
  return set_described<host_work>(hNode, nodeParams);
}
CUresult CUDAAPI cuGraphEventRecordNodeSetEvent(CUgraphNode hNode,
                                                CUevent event) {
  return set_event<event_record_work>(hNode, event);
}
CUresult CUDAAPI cuGraphEventWaitNodeSetEvent(CUgraphNode hNode,
                                              CUevent event) {
  return set_event<event_wait_work>(hNode, event);
}

CUresult CUDAAPI cuGraphNodeSetParams(CUgraphNode hNode,
                                      CUgraphNodeParams* nodeParams) {
  return with_node(hNode, [&](graph_node& x) {
    work fresh;
    if (nodeParams == nullptr || nodeParams->type != type_of(x.what))
      return CUDA_ERROR_INVALID_VALUE;
    auto code = describe(*nodeParams, fresh);
    if (code != CUDA_SUCCESS)
      return code;
    keep_attributes(fresh, x.what);
    x.in->set_work(x, std::move(fresh));
    return code;
  });
}

// -- kernel attributes
// -----------------------------------------------------------------------------

namespace {

/// Returns the device of a node's kernel. A kernel of a library runs on that of
/// the current context.
std::uint8_t device_of(const kernel_work& x) {
  if (auto* known = functions().find(x.function); known != nullptr)
    return known->to->in->owner.device_index();
  auto* current = current_context();
  return current == nullptr ? std::uint8_t{0} : current->device_index();
}

} // namespace

CUresult CUDAAPI cuGraphKernelNodeCopyAttributes(CUgraphNode dst,
                                                 CUgraphNode src) {
  return with_work<kernel_work>(dst, [&](graph_node&, kernel_work& to) {
    auto* other = find_node(src);
    auto* from =
        other == nullptr ? nullptr : std::get_if<kernel_work>(&other->what);
    if (from == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    to.keep_attributes_of(*from);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI
cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                              CUkernelNodeAttrValue* value_out) {
  return with_work<kernel_work>(hNode, [&](graph_node&, kernel_work& w) {
    if (value_out == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    return w.with.get(attr, w.shape, *value_out);
  });
}

CUresult CUDAAPI
cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                              const CUkernelNodeAttrValue* value) {
  return with_work<kernel_work>(hNode, [&](graph_node&, kernel_work& w) {
    if (value == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    auto fresh = w.shape;
    auto with = w.with;
    if (auto code =
            with.set(attribute_use::node, device_of(w), attr, *value, fresh);
        code != CUDA_SUCCESS)
      return code;
    auto* current = current_context();
    auto why = CUDA_SUCCESS;
    auto* f =
        current == nullptr ? nullptr : find_function(w.function, *current, why);
    vgpu::call::dim3 clusters;
    if (f != nullptr)
      why = clusters_of(fresh, *f, clusters);
    if (why != CUDA_SUCCESS)
      return why;
    w.shape = fresh;
    w.with = std::move(with);
    return why;
  });
}
