// Launches of graphs whose conditional nodes choose what is done.
#pragma once

#include "interposer/graph/graph.hpp"

#include <cuda.h>

#include <memory>

namespace vgpu::interposer {

/// Appends what `what` does, in the stream's order: what comes before its first
/// conditional node at once, the rest from another thread when kernels have set
/// the conditions. `what` must not change any more. Does not wait for that, but
/// where some of these are under way already.
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

/// Waits until none is under way: what they will append may use what is about
/// to go. One load where there is none. Not for the thread that runs them.
void wait_for_conditional_launches();

/// A context ends, and what is kept for its launches.
void forget_conditional_launches(const context& of);

} // namespace vgpu::interposer
