// Entry points for conditions of graphs and for conditional nodes.
#include "interposer/api/graph_entry.hpp"

#include "interposer/graph/graph_condition.hpp"

using namespace vgpu::interposer;

namespace {

/// Tells whether a node may have this many bodies.
bool is_size(CUgraphConditionalNodeType type, unsigned size) {
  switch (type) {
  case CU_GRAPH_COND_TYPE_IF:
    return size == 1 || size == 2;
  case CU_GRAPH_COND_TYPE_WHILE:
    return size == 1;
  case CU_GRAPH_COND_TYPE_SWITCH:
    return size != 0;
  }
  return false;
}

/// Returns the graph around all bodies.
graph& outermost(graph& x) {
  return x.outer == nullptr ? x : outermost(*x.outer);
}

} // namespace

namespace vgpu::interposer {

CUresult describe_conditional(graph& into, CUDA_CONDITIONAL_NODE_PARAMS& from,
                              work& out) {
  conditional_work made;
  made.on = find_condition(from.handle);
  made.type = from.type;
  if (made.on == nullptr || made.on->has_node ||
      made.on->graph != outermost(into).handle ||
      !is_size(from.type, from.size))
    return CUDA_ERROR_INVALID_VALUE;
  auto* in = contexts().find(from.ctx);
  if (in == nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (&in->root != &made.on->owner())
    return CUDA_ERROR_INVALID_VALUE;
  made.told = std::make_unique<CUgraph[]>(from.size);
  for (unsigned i = 0; i < from.size; ++i) {
    auto& body = made.bodies.emplace_back(std::make_unique<graph>());
    body->held_by = graph::holder::body;
    made.told[i] = body->handle;
  }
  from.phGraph_out = made.told.get();
  made.on->has_node = true;
  out = std::move(made);
  return CUDA_SUCCESS;
}

} // namespace vgpu::interposer

CUresult CUDAAPI cuGraphConditionalHandleCreate(
    CUgraphConditionalHandle* pHandle_out, CUgraph hGraph, CUcontext ctx,
    unsigned int defaultLaunchValue, unsigned int flags) {
  return with_graph(hGraph, [&](graph& x) -> CUresult {
    auto* in = contexts().find(ctx);
    if (pHandle_out == nullptr ||
        (flags & ~unsigned{CU_GRAPH_COND_ASSIGN_DEFAULT}) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (auto why = usable(in); why != CUDA_SUCCESS)
      return why;
    std::shared_ptr<condition> made;
    auto code = condition::make(in->root, outermost(x).handle,
                                {defaultLaunchValue, flags != 0}, made);
    if (code != CUDA_SUCCESS)
      return code;
    *pHandle_out = made->handle();
    outermost(x).add(std::move(made));
    return CUDA_SUCCESS;
  });
}
