// Drawings of graphs for Graphviz (cuGraphDebugDotPrint).
#pragma once

#include "interposer/graph/graph.hpp"

#include <string>

namespace vgpu::interposer {

/// Draws the graph, and those of its child nodes, as a digraph. `flags` are
/// CUgraphDebugDot_flags, which choose the details of the nodes.
std::string draw(const graph& x, unsigned flags);

} // namespace vgpu::interposer
