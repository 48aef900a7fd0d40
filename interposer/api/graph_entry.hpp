// Helpers that the files with the entry points of graphs share.
#pragma once

#include "interposer/api/entry.hpp"

#include "interposer/graph/graph.hpp"

#include <algorithm>
#include <vector>

namespace vgpu::interposer {

/// Runs a body as guarded() does, with the graph that the handle names.
template <class Body>
CUresult with_graph(CUgraph handle, const Body& body) noexcept {
  return guarded([&]() -> CUresult {
    auto* x = find_graph(handle);
    return x == nullptr ? CUDA_ERROR_INVALID_VALUE : body(*x);
  });
}

/// Runs a body as guarded() does, with the node that the handle names.
template <class Body>
CUresult with_node(CUgraphNode handle, const Body& body) noexcept {
  return guarded([&]() -> CUresult {
    auto* x = find_node(handle);
    return x == nullptr ? CUDA_ERROR_INVALID_VALUE : body(*x);
  });
}

/// Runs a body with a node and its work. Returns CUDA_ERROR_INVALID_VALUE where
/// the work is of another kind.
template <class Work, class Body>
CUresult with_work(CUgraphNode handle, const Body& body) noexcept {
  return with_node(handle, [&](graph_node& x) -> CUresult {
    auto* w = std::get_if<Work>(&x.what);
    return w == nullptr ? CUDA_ERROR_INVALID_VALUE : body(x, *w);
  });
}

/// Finds the nodes that a list of handles names. Returns
/// CUDA_ERROR_INVALID_VALUE where one is not in the graph.
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

/// Tells whether no edge has data.
inline bool are_plain(const CUgraphEdgeData* edges, std::size_t count) {
  return edges == nullptr || std::all_of(edges, edges + count, is_plain);
}

/// Adds a node to a graph. `make` gets the graph, and fills in the work.
template <class Work, class Make>
CUresult add_node_of(CUgraphNode* out, CUgraph in, const CUgraphNode* after,
                     std::size_t count, const Make& make) noexcept {
  return with_graph(in, [&](graph& x) -> CUresult {
    std::vector<graph_node*> before;
    if (out == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    if (auto code = find_nodes(x, after, count, before); code != CUDA_SUCCESS)
      return code;
    Work what;
    if (auto code = make(x, what); code != CUDA_SUCCESS)
      return code;
    *out = x.add(std::move(what), before).handle;
    return CUDA_SUCCESS;
  });
}

/// Adds a node to a graph. `make` fills in the work.
template <class Work, class Make>
CUresult add_node(CUgraphNode* out, CUgraph in, const CUgraphNode* after,
                  std::size_t count, const Make& make) noexcept {
  return add_node_of<Work>(out, in, after, count,
                           [&](graph&, Work& what) { return make(what); });
}

/// Runs a body as guarded() does, with the executable graph that the handle
/// names.
template <class Body>
CUresult with_exec(CUgraphExec handle, const Body& body) noexcept {
  return guarded([&]() -> CUresult {
    auto* x = graph_execs().find(handle);
    return x == nullptr ? CUDA_ERROR_INVALID_VALUE : body(*x);
  });
}

/// Runs a body with an executable graph and its copy of a node.
template <class Body>
CUresult with_node_of(CUgraphExec handle, CUgraphNode node,
                      const Body& body) noexcept {
  return with_exec(handle, [&](graph_exec& x) -> CUresult {
    auto* original = find_node(node);
    auto* mine = original == nullptr ? nullptr : x.what->copy_of(*original);
    if (mine == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    x.changed();
    return body(x, *mine);
  });
}

/// Replaces the work of an executable graph's copy of a node. `make` fills in
/// the new work. Returns CUDA_ERROR_INVALID_VALUE where the work is of another
/// kind.
template <class Work, class Make>
CUresult set_exec_work(CUgraphExec exec, CUgraphNode node,
                       const Make& make) noexcept {
  return with_node_of(exec, node,
                      [&](graph_exec& x, graph_node& mine) -> CUresult {
                        auto* w = std::get_if<Work>(&mine.what);
                        if (w == nullptr)
                          return CUDA_ERROR_INVALID_VALUE;
                        Work fresh;
                        auto code = make(x, *w, fresh);
                        if (code == CUDA_SUCCESS)
                          mine.in->set_work(mine, std::move(fresh));
                        return code;
                      });
}

/// Converts the general node struct to work. Returns CUDA_ERROR_NOT_SUPPORTED
/// for unsupported kinds.
CUresult describe(const CUgraphNodeParams& from, work& out);

/// Copies a graph for a child node. Returns CUDA_ERROR_NOT_SUPPORTED for a
/// graph that cannot be copied.
CUresult copy_child(const graph& from, child_work& out);

/// Converts the struct of a node in `into`, as describe() does. May move the
/// graph of a child node there. Reserves the addresses of memory, and writes
/// them to `from`.
CUresult describe_in(graph& into, CUgraphNodeParams& from, work& out);
/// Converts the struct of a conditional node of `into`. Makes the graphs of its
/// bodies, and writes their handles to `from`.
CUresult describe_conditional(graph& into, CUDA_CONDITIONAL_NODE_PARAMS& from,
                              work& out);
/// Converts the struct of an allocation node of `into`. Reserves the addresses,
/// and writes them to `from`.
CUresult describe_allocation(graph& into, CUDA_MEM_ALLOC_NODE_PARAMS& from,
                             allocation_work& out);

/// Serves cuGraphInstantiateWithFlags. Returns CUDA_ERROR_INVALID_VALUE for the
/// flag that asks for an upload, because there is no stream for it.
CUresult instantiate(CUgraphExec* out, CUgraph handle, std::uint64_t flags);

} // namespace vgpu::interposer
