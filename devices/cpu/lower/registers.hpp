// Placement of a function's values in its frame.
#pragma once

#include "devices/cpu/lower/program.hpp"

#include <cstdint>
#include <vector>

namespace vgpu::device::cpu {

/// Describes a register or constant of a function that has no place yet.
struct value {
  char width = '4'; // as in op_entry::signature, lower case
  bool constant = false;
  std::uint64_t bits = 0; // a constant's value
};

/// Holds an instruction whose operands are indices of values and whose jumps
/// are indices of labels.
struct pending {
  instr what;
  std::uint32_t line = 0;
  std::uint8_t written = 0; // the fields that it writes, a bit each
  bool guarded = false;     // may write only some lanes
  std::int32_t target = -1; // the label it jumps to, or -1
  bool ends = false;        // control never falls through
};

/// Calls f(value, written) for each operand.
template <class F>
void each_operand(const pending& x, F f) {
  for (auto i = 0; i < field_count; ++i)
    if (x.what.o[i] >= 0)
      f(static_cast<std::size_t>(x.what.o[i]), ((x.written >> i) & 1) != 0);
}

/// Chooses the places of values; values that are never live at the same time
/// share one. Replaces the operands' indices by offsets, and fills in the size
/// of the frame and its constants. `label_at` holds each label's instruction.
void place_registers(std::vector<pending>& instrs,
                     const std::vector<value>& values,
                     const std::vector<std::uint32_t>& label_at, code& of);

} // namespace vgpu::device::cpu
