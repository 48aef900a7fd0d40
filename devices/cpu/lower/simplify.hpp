// Optimisations of lowered functions, before their registers have places.
#pragma once

#include "devices/cpu/lower/registers.hpp"

#include <cstdint>
#include <vector>

namespace vgpu::device::cpu {

/// Tells for each instruction, and for the end, whether a label leads there.
std::vector<bool> labelled(const std::vector<pending>& instrs,
                           const std::vector<std::uint32_t>& label_at);

/// Removes some instructions, none of which is guarded. Labels keep their
/// targets.
void leave_out(const std::vector<bool>& which, std::vector<pending>& instrs,
               std::vector<std::uint32_t>& label_at);

/// Drops results that nothing reads, where the operation works without a
/// result. An atomic operation without a result stores less.
void drop_unread_results(std::vector<pending>& instrs,
                         const std::vector<value>& values);

/// Writes special registers directly to where they are used, without a move.
void write_specials_in_place(std::vector<pending>& instrs,
                             const std::vector<value>& values,
                             std::vector<std::uint32_t>& label_at);

/// Gives loads and stores of global memory the form with base and index, where
/// the address is a base common to all lanes plus an index times a constant.
/// The executor then computes no lane's address where neighbouring lanes access
/// neighbouring memory. Instructions whose results become unused are removed.
void use_indices(std::vector<pending>& instrs, const std::vector<value>& values,
                 std::vector<std::uint32_t>& label_at);

/// Moves to the kernel's beginning all that a warp computes only from the
/// launch and from its place in the block (parameters, %tid, %ntid, and simple
/// arithmetic on these). The first block that a frame serves computes it, and
/// later blocks find the results in their registers. Returns how many 32-bit
/// registers the results take; a GPU has most of them in its constant bank.
std::uint32_t hoist_launch_constants(std::vector<pending>& instrs,
                                     std::vector<value>& values,
                                     std::vector<std::uint32_t>& label_at,
                                     const code& of);

} // namespace vgpu::device::cpu
