// What cp.reduce.async.bulk does with the values that are there.
#pragma once

#include <cstdint>

namespace vgpu::device::cpu {

enum class bulk_op : std::uint8_t {
  copy, // replace them
  add,
  min,
  max,
  inc,
  dec,
  bit_and,
  bit_or,
  bit_xor,
};

/// In instr::imm above the bulk_op.
enum class bulk_type : std::uint8_t { u32, s32, u64, s64, f16, bf16, f32, f64 };

} // namespace vgpu::device::cpu
