// The table of what the executor can do: a key such as "add.f32" leads to the
// function that does it for a warp.
#pragma once

#include "devices/cpu/lower/program.hpp"

#include <string_view>
#include <vector>

namespace vgpu::device::cpu {

/// `signature` says how wide the fields are, in the order of instr::o: 1, 2,
/// 4, 8 bytes a lane, p for a predicate; capitals (or P) for what is written.
/// 'A', 'B', 'D', 'H', 'Q' are written registers of 1, 2, 4, 8 and 16 bytes;
/// '@' is a read one of 16; an operand behind '?' may be absent, '.' is none.
struct op_entry {
  std::string_view key;
  handler fn = nullptr;
  std::string_view signature;
};

/// The entry of that key, of the variant that suits this host's processor, or
/// null.
const op_entry* find_op(std::string_view key);

/// The name of the variant in use: x86-64-v2 or -v3.
std::string_view op_variant();

/// Every key, in order: what the executor can do.
std::vector<std::string_view> op_keys();

} // namespace vgpu::device::cpu
