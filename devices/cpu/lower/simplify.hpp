// Makes less work of lowered functions, before their registers have places.
#pragma once

#include "devices/cpu/lower/registers.hpp"

#include <cstdint>
#include <vector>

namespace vgpu::device::cpu {

/// For each instruction, and for the end, whether a label leads there.
std::vector<bool> labelled(const std::vector<pending>& instrs,
                           const std::vector<std::uint32_t>& label_at);

/// Leaves out some instructions, of which none is guarded; labels go on leading
/// where they led.
void leave_out(const std::vector<bool>& which, std::vector<pending>& instrs,
               std::vector<std::uint32_t>& label_at);

/// Results that nobody reads, of operations that may do without: an atomic
/// whose result is not asked for watches nothing and stores less.
void drop_unread_results(std::vector<pending>& instrs,
                         const std::vector<value>& values);

/// Special registers go where they are wanted, without a move.
void write_specials_in_place(std::vector<pending>& instrs,
                             const std::vector<value>& values,
                             std::vector<std::uint32_t>& label_at);

/// Loads and stores of global memory whose address is a base that all lanes
/// have alike and an index times a constant take both themselves: no lane's
/// address is computed where neighbours access neighbours. What nobody reads
/// any more is left out.
void use_indices(std::vector<pending>& instrs, const std::vector<value>& values,
                 std::vector<std::uint32_t>& label_at);

/// Moves what a warp of a kernel computes from nothing but the launch and its
/// place in the block (parameters, %tid, %ntid, and simple arithmetic on
/// those) to the kernel's beginning, where it is done by the first block that
/// a frame serves; later blocks find the results in their registers. Returns
/// the 32-bit registers that the results take: a GPU has most of them in its
/// constant bank.
std::uint32_t hoist_launch_constants(std::vector<pending>& instrs,
                                     std::vector<value>& values,
                                     std::vector<std::uint32_t>& label_at,
                                     const code& of);

} // namespace vgpu::device::cpu
