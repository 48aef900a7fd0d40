// What the files with the entry points of graphs share.
#pragma once

#include "interposer/entry.hpp"

#include "interposer/graph.hpp"

#include <vector>

namespace vgpu::interposer {

/// As guarded, with the graph that the handle names.
template <class Body>
CUresult with_graph(CUgraph handle, const Body& body) noexcept {
  return guarded([&]() -> CUresult {
    auto* x = find_graph(handle);
    return x == nullptr ? CUDA_ERROR_INVALID_VALUE : body(*x);
  });
}

template <class Body>
CUresult with_node(CUgraphNode handle, const Body& body) noexcept {
  return guarded([&]() -> CUresult {
    auto* x = find_node(handle);
    return x == nullptr ? CUDA_ERROR_INVALID_VALUE : body(*x);
  });
}

/// With the node's work, where it is of that kind.
template <class Work, class Body>
CUresult with_work(CUgraphNode handle, const Body& body) noexcept {
  return with_node(handle, [&](graph_node& x) -> CUresult {
    auto* w = std::get_if<Work>(&x.what);
    return w == nullptr ? CUDA_ERROR_INVALID_VALUE : body(x, *w);
  });
}

/// The nodes of one graph that a list of handles names.
inline CUresult find_nodes(const graph& in, const CUgraphNode* handles,
                           std::size_t count, std::vector<graph_node*>& out) {
  if (count != 0 && handles == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    auto* x = find_node(handles[i]);
    if (x == nullptr || x->in != &in)
      return CUDA_ERROR_INVALID_VALUE;
    out.push_back(x);
  }
  return CUDA_SUCCESS;
}

/// Only plain edges: what else there is concerns kernels that start their
/// dependents before they end.
inline bool are_plain(const CUgraphEdgeData* edges, std::size_t count) {
  for (std::size_t i = 0; edges != nullptr && i < count; ++i)
    if (edges[i].from_port != 0 || edges[i].to_port != 0 || edges[i].type != 0)
      return false;
  return true;
}

/// Work as the general node structs describe it; CUDA_ERROR_NOT_SUPPORTED for
/// kinds that nothing here does.
CUresult describe(const CUgraphNodeParams& from, work& out);

/// cuGraphInstantiateWithFlags.
CUresult instantiate(CUgraphExec* out, CUgraph handle, std::uint64_t flags);

} // namespace vgpu::interposer
