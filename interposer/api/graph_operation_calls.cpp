// Entry points for the nodes of graphs that write words of memory and wait for
// them.
#include "interposer/api/graph_entry.hpp"

#include "interposer/memory/stream_value.hpp"

#include <algorithm>

using namespace vgpu::interposer;

namespace {

/// Tells whether two nodes have the same operations. In an executable graph
/// only the operations' arguments may change
/// (cuGraphExecBatchMemOpNodeSetParams).
bool is_alike(const operations_work& x, const operations_work& y) {
  auto same = [](auto& a, auto& b) { return a.operation == b.operation; };
  return std::equal(x.what.begin(), x.what.end(), y.what.begin(), y.what.end(),
                    same);
}

CUresult described(const CUDA_BATCH_MEM_OP_NODE_PARAMS* params,
                   operations_work& out) {
  return params == nullptr ? CUDA_ERROR_INVALID_VALUE : describe(*params, out);
}

} // namespace

namespace vgpu::interposer {

CUresult describe(const CUDA_BATCH_MEM_OP_NODE_PARAMS& from,
                  operations_work& out) {
  auto* in =
      from.ctx == nullptr ? current_context() : contexts().find(from.ctx);
  if (auto why = usable(in); why != CUDA_SUCCESS)
    return why;
  if (from.flags != 0 || from.count > most_operations ||
      (from.count != 0 && from.paramArray == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  value_operations what{from.paramArray, from.count};
  if (auto code = check_operations(*in, what, true); code != CUDA_SUCCESS)
    return code;
  out.what.assign(what.begin(), what.end());
  out.context = in->handle;
  return CUDA_SUCCESS;
}

} // namespace vgpu::interposer

CUresult CUDAAPI cuGraphAddBatchMemOpNode(
    CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
    size_t numDependencies, const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
  return add_node<operations_work>(
      phGraphNode, hGraph, dependencies, numDependencies,
      [&](auto& what) { return described(nodeParams, what); });
}

CUresult CUDAAPI cuGraphBatchMemOpNodeGetParams(
    CUgraphNode hNode, CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams_out) {
  return with_work<operations_work>(
      hNode, [&](graph_node&, operations_work& w) {
        if (nodeParams_out == nullptr)
          return CUDA_ERROR_INVALID_VALUE;
        *nodeParams_out = {w.context, static_cast<unsigned>(w.what.size()),
                           w.what.data(), 0};
        return CUDA_SUCCESS;
      });
}

CUresult CUDAAPI cuGraphBatchMemOpNodeSetParams(
    CUgraphNode hNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
  return with_work<operations_work>(hNode,
                                    [&](graph_node&, operations_work& w) {
                                      operations_work fresh;
                                      auto code = described(nodeParams, fresh);
                                      if (code == CUDA_SUCCESS)
                                        w = std::move(fresh);
                                      return code;
                                    });
}

CUresult CUDAAPI cuGraphExecBatchMemOpNodeSetParams(
    CUgraphExec hGraphExec, CUgraphNode hNode,
    const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
  return set_exec_work<operations_work>(
      hGraphExec, hNode, [&](auto&, operations_work& old, auto& fresh) {
        auto code = described(nodeParams, fresh);
        if (code == CUDA_SUCCESS &&
            (!is_alike(old, fresh) ||
             (old.context != nullptr && old.context != fresh.context)))
          return CUDA_ERROR_INVALID_VALUE;
        return code;
      });
}
