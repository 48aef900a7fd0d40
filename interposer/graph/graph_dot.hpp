// Drawings of graphs, for Graphviz (cuGraphDebugDotPrint).
#pragma once

#include "interposer/graph/graph.hpp"

#include <string>

namespace vgpu::interposer {

/// The graph, and those of its child nodes, as a digraph. `flags` are
/// CUgraphDebugDot_flags: what is told of nodes besides their kinds.
std::string draw(const graph& x, unsigned flags);

} // namespace vgpu::interposer
