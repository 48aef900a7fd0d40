// The table of the executor's operations: a key such as "add.f32" leads to the
// function that executes the operation for a warp.
#pragma once

#include "devices/cpu/lower/program.hpp"

#include <string_view>
#include <vector>

namespace vgpu::device::cpu {

/// Describes one operation. `signature` has a letter for each field, in the
/// order of instr::o: 1, 2, 4 and 8 stand for registers of that many bytes a
/// lane, '@' for one of 16, and p for a predicate. Written registers have A, B,
/// D, H and Q for 1, 2, 4, 8 and 16 bytes, and P for a predicate. '?' says that
/// the next operand may be absent, and '.' that there is none.
struct op_entry {
  std::string_view key;
  handler fn = nullptr;
  std::string_view signature;
};

/// Returns the operation with this key, in the variant that suits this host's
/// processor, or null.
const op_entry* find_op(std::string_view key);

/// Returns the name of the variant in use: x86-64-v2 or x86-64-v3.
std::string_view op_variant();

/// Returns every key, sorted.
std::vector<std::string_view> op_keys();

} // namespace vgpu::device::cpu
