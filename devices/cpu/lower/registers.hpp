// Where the values of a function lie in its frame.
#pragma once

#include "devices/cpu/lower/program.hpp"

#include <cstdint>
#include <vector>

namespace vgpu::device::cpu {

/// A register or constant of a function before it has a place.
struct value {
  char width = '4'; // as in op_entry::signature, lower case
  bool constant = false;
  std::uint64_t bits = 0; // of a constant
};

/// An instruction whose operands are indices of values, and whose jumps are
/// indices of labels.
struct pending {
  instr what;
  std::uint32_t line = 0;
  std::uint8_t written = 0; // fields that it writes
  bool guarded = false;     // may write some lanes only
  std::int32_t target = -1; // label
  bool ends = false;        // nothing falls through
};

/// Calls f(value, written) for each operand.
template <class F>
void each_operand(const pending& x, F f) {
  for (auto i = 0; i < field_count; ++i)
    if (x.what.o[i] >= 0)
      f(static_cast<std::size_t>(x.what.o[i]), ((x.written >> i) & 1) != 0);
}

/// Chooses offsets: values that are never alive together share one. Replaces
/// the operands' indices by offsets, and fills in the size of the frame and
/// its constants. `label_at` gives each label's instruction.
void place_registers(std::vector<pending>& instrs,
                     const std::vector<value>& values,
                     const std::vector<std::uint32_t>& label_at, code& of);

} // namespace vgpu::device::cpu
