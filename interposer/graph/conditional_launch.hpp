// Launches of graphs with conditional nodes.
#pragma once

#include "interposer/graph/graph.hpp"

#include <cuda.h>

#include <memory>

namespace vgpu::interposer {

/// Appends the work of `what`, in the stream's order. The work before its first
/// conditional node goes at once, and the rest from another thread when kernels
/// have set the conditions. `what` must not change any more. It waits only
/// where several such launches are under way already.
///
///   the stream        a stream that nobody sees
///   ----------        -------------------------
///   nodes
///   record ─────────► wait
///   wait for the      read the condition, tell the program;
///   lane's word       it appends the body that it chooses, and so on
///      ▲              the other nodes
///      └───────────── write the lane's word
CUresult launch_conditional(std::shared_ptr<const graph> what, stream& in);

/// Waits until no such launch is under way, because it may yet append work that
/// uses an object about to be freed. It costs one load where there is none. It
/// does not wait on the thread that runs the launches.
void wait_for_conditional_launches();

/// Destroys what is kept for launches of a context that ends.
void forget_conditional_launches(const context& of);

} // namespace vgpu::interposer
