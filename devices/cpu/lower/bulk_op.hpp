// The operations of cp.reduce.async.bulk (PTX ISA).
#pragma once

#include <cstdint>

namespace vgpu::device::cpu {

/// Names the operation between the values at the destination and those that
/// arrive. `copy` replaces the former.
enum class bulk_op : std::uint8_t {
  copy,
  add,
  min,
  max,
  inc,
  dec,
  bit_and,
  bit_or,
  bit_xor,
};

/// Names the type of the values. instr::imm holds it above the bulk_op.
enum class bulk_type : std::uint8_t { u32, s32, u64, s64, f16, bf16, f32, f64 };

} // namespace vgpu::device::cpu
