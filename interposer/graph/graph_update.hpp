// Updates of executable graphs (cuGraphExecUpdate): which node takes the place
// of which, and which differences are possible.
#pragma once

#include "interposer/graph/graph.hpp"

#include <cuda.h>

#include <cstdint>
#include <map>

namespace vgpu::interposer {

/// Maps each node of the graph that brings the new work to the node that takes
/// it, also in bodies.
using node_pairs = std::map<const graph_node*, graph_node*>;

/// Pairs the nodes of two graphs by their edges, from the last nodes on, as
/// cuda.h describes. Returns CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, and in
/// `info` the first difference, where the graphs differ in a way that no update
/// can change. `flags` are those of the executable graph.
CUresult pair_nodes(graph& mine, const graph& theirs, std::uint64_t flags,
                    node_pairs& out, CUgraphExecUpdateResultInfo& info);

/// Takes over the work of the other graph. The program's nodes stay the same.
void take_over(const node_pairs& pairs);

} // namespace vgpu::interposer
