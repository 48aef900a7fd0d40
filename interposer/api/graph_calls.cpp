// Entry points for graphs: nodes, edges, clones, user objects.
#include "interposer/api/graph_entry.hpp"

#include "interposer/graph/graph_dot.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

using namespace vgpu::interposer;

namespace {

/// Fills the caller's array up to its size, which must not be 0. Without an
/// array, returns the number of entries.
template <class Write>
CUresult give_list(std::size_t have, bool wants_list, std::size_t* count,
                   const Write& write) {
  if (count == nullptr || (wants_list && *count == 0))
    return CUDA_ERROR_INVALID_VALUE;
  if (wants_list) {
    for (std::size_t i = 0; i < *count; ++i)
      write(i, i < have);
    *count = std::min(*count, have);
  } else {
    *count = have;
  }
  return CUDA_SUCCESS;
}

CUresult give_nodes(const std::vector<graph_node*>& all, CUgraphNode* out,
                    std::size_t* count) {
  return give_list(all.size(), out != nullptr, count,
                   [&](std::size_t i, bool there) {
                     out[i] = there ? all[i]->handle : nullptr;
                   });
}

using edge = std::pair<graph_node*, graph_node*>;

/// Fills the arrays that the caller passed. Returns an error where an edge has
/// data and the caller passed no array for it.
CUresult give_edges(const std::vector<edge>& all, CUgraphNode* from,
                    CUgraphNode* to, CUgraphEdgeData* data,
                    std::size_t* count) {
  auto wants_list = from != nullptr || to != nullptr;
  if (wants_list && data == nullptr &&
      std::any_of(all.begin(), all.end(), [](auto& x) {
        return !is_plain(data_of(*x.first, *x.second));
      }))
    return CUDA_ERROR_LOSSY_QUERY;
  return give_list(all.size(), wants_list, count,
                   [&](std::size_t i, bool there) {
                     if (from != nullptr)
                       from[i] = there ? all[i].first->handle : nullptr;
                     if (to != nullptr)
                       to[i] = there ? all[i].second->handle : nullptr;
                     if (data != nullptr)
                       data[i] = there ? data_of(*all[i].first, *all[i].second)
                                       : CUgraphEdgeData{};
                   });
}

CUresult give_edges(CUgraph handle, CUgraphNode* from, CUgraphNode* to,
                    CUgraphEdgeData* data, std::size_t* count) noexcept {
  return with_graph(handle, [&](graph& x) -> CUresult {
    if ((from == nullptr) != (to == nullptr))
      return CUDA_ERROR_INVALID_VALUE;
    std::vector<edge> all;
    for (auto& node : x.nodes())
      for (auto* before : node->after)
        all.emplace_back(before, node.get());
    return give_edges(all, from, to, data, count);
  });
}

/// Adds or removes an edge. Returns CUDA_ERROR_INVALID_VALUE where that is not
/// possible. Without data it removes the edge, whatever data the edge has (as
/// driver 580 on an H200).
CUresult change_edge(graph& in, graph_node& from, graph_node& to,
                     const CUgraphEdgeData* data, bool add) {
  if (!add) {
    auto has = data_of(from, to);
    return data == nullptr || std::memcmp(data, &has, sizeof(has)) == 0
               ? in.disconnect(from, to)
               : CUDA_ERROR_INVALID_VALUE;
  }
  auto what = data == nullptr ? CUgraphEdgeData{} : *data;
  auto code = check_edge(what, from, to.what);
  if (code == CUDA_SUCCESS)
    code = in.connect(from, to);
  if (code == CUDA_SUCCESS)
    mark(to, from, what);
  return code;
}

CUresult change_edges(CUgraph handle, const CUgraphNode* from,
                      const CUgraphNode* to, const CUgraphEdgeData* data,
                      std::size_t count, bool add) noexcept {
  return with_graph(handle, [&](graph& x) -> CUresult {
    std::vector<graph_node*> begins, ends;
    if (auto code = find_nodes(x, from, count, begins); code != CUDA_SUCCESS)
      return code;
    if (auto code = find_nodes(x, to, count, ends); code != CUDA_SUCCESS)
      return code;
    if (!add && x.has_memory())
      return CUDA_ERROR_NOT_SUPPORTED;
    for (std::size_t i = 0; i < count; ++i)
      if (auto code = change_edge(x, *begins[i], *ends[i],
                                  data == nullptr ? nullptr : data + i, add);
          code != CUDA_SUCCESS)
        return code;
    return CUDA_SUCCESS;
  });
}

CUresult give_dependencies(CUgraphNode handle, CUgraphNode* out,
                           CUgraphEdgeData* edges,
                           std::size_t* count) noexcept {
  return with_node(handle, [&](graph_node& x) {
    std::vector<edge> all;
    for (auto* before : x.after)
      all.emplace_back(before, &x);
    return give_edges(all, out, nullptr, edges, count);
  });
}

CUresult give_dependents(CUgraphNode handle, CUgraphNode* out,
                         CUgraphEdgeData* edges, std::size_t* count) noexcept {
  return with_node(handle, [&](graph_node& x) {
    std::vector<edge> all;
    for (auto* behind : x.in->dependents(x))
      all.emplace_back(&x, behind);
    return give_edges(all, nullptr, out, edges, count);
  });
}

} // namespace

// -- graphs
// -----------------------------------------------------------------------------

CUresult CUDAAPI cuGraphCreate(CUgraph* phGraph, unsigned int flags) {
  return guarded([&] {
    if (phGraph == nullptr || flags != 0)
      return CUDA_ERROR_INVALID_VALUE;
    *phGraph = give_to_program(std::make_unique<graph>());
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphClone(CUgraph* phGraphClone, CUgraph originalGraph) {
  return with_graph(originalGraph, [&](graph& x) {
    if (phGraphClone == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    if (x.is_single() || x.held_by == graph::holder::body)
      return CUDA_ERROR_NOT_SUPPORTED;
    *phGraphClone = give_to_program(x.clone());
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphDestroy(CUgraph hGraph) {
  return guarded([&] { return destroy_graph(hGraph); });
}

CUresult CUDAAPI cuGraphNodeFindInClone(CUgraphNode* phNode,
                                        CUgraphNode hOriginalNode,
                                        CUgraph hClonedGraph) {
  return with_node(hOriginalNode, [&](graph_node& x) {
    auto* in = find_graph(hClonedGraph);
    auto* found = in == nullptr ? nullptr : in->with_id(x.id);
    if (phNode == nullptr || found == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *phNode = found->handle;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphGetNodes(CUgraph hGraph, CUgraphNode* nodes,
                                 size_t* numNodes) {
  return with_graph(hGraph, [&](graph& x) {
    std::vector<graph_node*> all;
    for (auto& node : x.nodes())
      all.push_back(node.get());
    return give_nodes(all, nodes, numNodes);
  });
}

CUresult CUDAAPI cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode* rootNodes,
                                     size_t* numRootNodes) {
  return with_graph(hGraph, [&](graph& x) {
    std::vector<graph_node*> roots;
    for (auto& node : x.nodes())
      if (node->after.empty())
        roots.push_back(node.get());
    return give_nodes(roots, rootNodes, numRootNodes);
  });
}

// -- edges
// -----------------------------------------------------------------------------

CUresult CUDAAPI cuGraphGetEdges(CUgraph hGraph, CUgraphNode* from,
                                 CUgraphNode* to, CUgraphEdgeData* edgeData,
                                 size_t* numEdges) {
  return give_edges(hGraph, from, to, edgeData, numEdges);
}
CUresult CUDAAPI cuGraphNodeGetDependencies(CUgraphNode hNode,
                                            CUgraphNode* dependencies,
                                            CUgraphEdgeData* edgeData,
                                            size_t* numDependencies) {
  return give_dependencies(hNode, dependencies, edgeData, numDependencies);
}
CUresult CUDAAPI cuGraphNodeGetDependentNodes(CUgraphNode hNode,
                                              CUgraphNode* dependentNodes,
                                              CUgraphEdgeData* edgeData,
                                              size_t* numDependentNodes) {
  return give_dependents(hNode, dependentNodes, edgeData, numDependentNodes);
}
CUresult CUDAAPI cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode* from,
                                        const CUgraphNode* to,
                                        const CUgraphEdgeData* edgeData,
                                        size_t numDependencies) {
  return change_edges(hGraph, from, to, edgeData, numDependencies, true);
}
CUresult CUDAAPI cuGraphRemoveDependencies(CUgraph hGraph,
                                           const CUgraphNode* from,
                                           const CUgraphNode* to,
                                           const CUgraphEdgeData* edgeData,
                                           size_t numDependencies) {
  return change_edges(hGraph, from, to, edgeData, numDependencies, false);
}

// These forms date from before edges had data.
extern "C" {
CUresult graph_edges_v1(CUgraph g, CUgraphNode* from, CUgraphNode* to,
                        size_t* count) VGPU_EXPORT_AS("cuGraphGetEdges");
CUresult graph_dependencies_v1(CUgraphNode node, CUgraphNode* out,
                               size_t* count)
    VGPU_EXPORT_AS("cuGraphNodeGetDependencies");
CUresult graph_dependents_v1(CUgraphNode node, CUgraphNode* out, size_t* count)
    VGPU_EXPORT_AS("cuGraphNodeGetDependentNodes");
CUresult graph_add_edges_v1(CUgraph g, const CUgraphNode* from,
                            const CUgraphNode* to, size_t count)
    VGPU_EXPORT_AS("cuGraphAddDependencies");
CUresult graph_remove_edges_v1(CUgraph g, const CUgraphNode* from,
                               const CUgraphNode* to, size_t count)
    VGPU_EXPORT_AS("cuGraphRemoveDependencies");
}
CUresult graph_edges_v1(CUgraph g, CUgraphNode* from, CUgraphNode* to,
                        size_t* count) {
  return give_edges(g, from, to, nullptr, count);
}
CUresult graph_dependencies_v1(CUgraphNode node, CUgraphNode* out,
                               size_t* count) {
  return give_dependencies(node, out, nullptr, count);
}
CUresult graph_dependents_v1(CUgraphNode node, CUgraphNode* out,
                             size_t* count) {
  return give_dependents(node, out, nullptr, count);
}
CUresult graph_add_edges_v1(CUgraph g, const CUgraphNode* from,
                            const CUgraphNode* to, size_t count) {
  return change_edges(g, from, to, nullptr, count, true);
}
CUresult graph_remove_edges_v1(CUgraph g, const CUgraphNode* from,
                               const CUgraphNode* to, size_t count) {
  return change_edges(g, from, to, nullptr, count, false);
}

// -- user objects
// -----------------------------------------------------------------------------

CUresult CUDAAPI cuUserObjectCreate(CUuserObject* object_out, void* ptr,
                                    CUhostFn destroy,
                                    unsigned int initialRefcount,
                                    unsigned int flags) {
  return guarded([&] {
    if (object_out == nullptr || destroy == nullptr || initialRefcount == 0 ||
        flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
      return CUDA_ERROR_INVALID_VALUE;
    auto made = std::make_unique<user_object>();
    made->data = ptr;
    made->destroy = destroy;
    made->references = initialRefcount;
    *object_out = to_handle<CUuserObject>(user_objects().add(std::move(made)));
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuUserObjectRetain(CUuserObject object, unsigned int count) {
  return guarded([&] {
    auto* x = user_objects().find(object);
    if (x == nullptr || count == 0)
      return CUDA_ERROR_INVALID_VALUE;
    x->references.fetch_add(count);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuUserObjectRelease(CUuserObject object, unsigned int count) {
  return guarded([&] { return release(object, count); });
}

CUresult CUDAAPI cuGraphRetainUserObject(CUgraph graph_handle,
                                         CUuserObject object,
                                         unsigned int count,
                                         unsigned int flags) {
  return with_graph(graph_handle, [&](graph& x) {
    auto* shared = user_objects().find(object);
    if (shared == nullptr || count == 0 ||
        (flags & ~unsigned{CU_GRAPH_USER_OBJECT_MOVE}) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CU_GRAPH_USER_OBJECT_MOVE) == 0)
      shared->references.fetch_add(count);
    x.keep(object, count);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphReleaseUserObject(CUgraph graph_handle,
                                          CUuserObject object,
                                          unsigned int count) {
  return with_graph(graph_handle,
                    [&](graph& x) { return x.give_up(object, count); });
}

/// Accepts all flags, also undefined ones.
CUresult CUDAAPI cuGraphDebugDotPrint(CUgraph hGraph, const char* path,
                                      unsigned int flags) {
  return with_graph(hGraph, [&](graph& x) -> CUresult {
    if (path == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    auto text = draw(x, flags);
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> file{std::fopen(path, "we"),
                                                         &std::fclose};
    if (!file ||
        std::fwrite(text.data(), 1, text.size(), file.get()) != text.size())
      return CUDA_ERROR_OPERATING_SYSTEM;
    return std::fclose(file.release()) == 0 ? CUDA_SUCCESS
                                            : CUDA_ERROR_OPERATING_SYSTEM;
  });
}
