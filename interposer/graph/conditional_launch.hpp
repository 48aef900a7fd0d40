// Launches of graphs with conditional nodes.
#pragma once

#include "interposer/graph/graph.hpp"

#include <cuda.h>

#include <memory>

namespace vgpu::interposer {

/// Appends the work of `what`, in the stream's order. The work before its first
/// conditional node is appended at once. Another thread appends the rest when
/// kernels have set the conditions. `what` must not change any more. The call
/// waits only where several such launches are under way.
///
///   the stream        a private stream
///   ----------        ----------------
///   nodes
///   record ─────────► wait
///   wait for the      read the condition; the interposer then
///   lane's word       appends the chosen body, and so on
///      ▲              the other nodes
///      └───────────── write the lane's word
CUresult launch_conditional(std::shared_ptr<const graph> what, stream& in);

/// Waits until no such launch is under way, because a launch may yet append
/// work that uses an object about to be freed. Costs one load where no launch
/// is under way. Does not wait on the thread that runs the launches.
void wait_for_conditional_launches();

/// Destroys the resources that are kept for launches in a context that ends.
void forget_conditional_launches(const context& of);

} // namespace vgpu::interposer
