// What the files with the entry points of graphs share.
#pragma once

#include "interposer/api/entry.hpp"

#include "interposer/graph/graph.hpp"

#include <algorithm>
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

inline bool are_plain(const CUgraphEdgeData* edges, std::size_t count) {
  return edges == nullptr || std::all_of(edges, edges + count, is_plain);
}

/// Adds a node with what `make` fills in, of the graph that it is to be in.
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

/// Adds a node with what `make` fills in.
template <class Work, class Make>
CUresult add_node(CUgraphNode* out, CUgraph in, const CUgraphNode* after,
                  std::size_t count, const Make& make) noexcept {
  return add_node_of<Work>(out, in, after, count,
                           [&](graph&, Work& what) { return make(what); });
}

/// As guarded, with the instantiated graph that the handle names.
template <class Body>
CUresult with_exec(CUgraphExec handle, const Body& body) noexcept {
  return guarded([&]() -> CUresult {
    auto* x = graph_execs().find(handle);
    return x == nullptr ? CUDA_ERROR_INVALID_VALUE : body(*x);
  });
}

/// With what a node of the graph that was instantiated is in the copy.
template <class Body>
CUresult with_node_of(CUgraphExec handle, CUgraphNode node,
                      const Body& body) noexcept {
  return with_exec(handle, [&](graph_exec& x) -> CUresult {
    auto* original = find_node(node);
    auto* mine = original == nullptr ? nullptr : x.what->with_id(original->id);
    if (mine == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    x.changed();
    return body(x, *mine);
  });
}

/// Replaces the work of what a node is in the copy by what `make` fills in,
/// where it is of that kind.
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
                          *w = std::move(fresh);
                        return code;
                      });
}

/// Work as the general node structs describe it; CUDA_ERROR_NOT_SUPPORTED for
/// kinds that nothing here does.
CUresult describe(const CUgraphNodeParams& from, work& out);

/// A copy of the graph, as a child node's own. CUDA_ERROR_NOT_SUPPORTED for one
/// that cannot be copied.
CUresult copy_child(const graph& from, child_work& out);

/// As describe(), for a node that is to be in `into`: the graph of a child node
/// may be moved there, and memory gets its addresses, which `from` then tells.
CUresult describe_in(graph& into, CUgraphNodeParams& from, work& out);
/// With graphs for its bodies, which `from` then tells.
CUresult describe_conditional(graph& into, CUDA_CONDITIONAL_NODE_PARAMS& from,
                              work& out);
CUresult describe_allocation(graph& into, CUDA_MEM_ALLOC_NODE_PARAMS& from,
                             allocation_work& out);

/// cuGraphInstantiateWithFlags, which has no stream to upload in: that flag is
/// CUDA_ERROR_INVALID_VALUE.
CUresult instantiate(CUgraphExec* out, CUgraph handle, std::uint64_t flags);

} // namespace vgpu::interposer
