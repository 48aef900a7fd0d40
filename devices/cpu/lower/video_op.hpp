// The video instructions, shared by lowering and executor (PTX ISA, "Scalar
// Video Instructions" and "SIMD Video Instructions").
#pragma once

#include <cstdint>

namespace vgpu::device::cpu {

/// Names the operation of a video instruction.
enum class video_op : std::uint8_t {
  add,
  sub,
  abs_diff,
  min,
  max,
  average,
  shift_left,
  shift_right,
  multiply_add,
  set,
};

/// Names the second operation, between the first result and c.
enum class video_second : std::uint8_t { none, add, min, max, merge };

/// Names the comparison of vset.
enum class video_test : std::uint8_t { eq, ne, lt, le, gt, ge };

/// Describes the form of a video instruction. instr::imm holds it, packed.
struct video_form {
  video_op op = video_op::add;
  video_second second = video_second::none;
  video_test test = video_test::eq;
  std::uint8_t parts = 1; // 1, 2 or 4 in a register
  bool to_signed = false, a_signed = false, b_signed = false;
  bool saturate = false;
  bool wrap = false;      // a shift's distance wraps
  bool plus_one = false;  // .po
  std::uint8_t shift = 0; // shift of a product
  /// Says where the operands come from. With one part, 0 is the word, 1-4 a
  /// byte and 5-6 a half. With 2 or 4 parts, 4 bits for each part say which
  /// part of a and b it is.
  std::uint16_t a_from = 0, b_from = 0;
  /// Says where the result goes: with one part as above, otherwise a mask of
  /// the parts to write.
  std::uint8_t to = 0;

  /// Returns the bits for instr::imm.
  std::int64_t pack() const {
    auto out = std::uint64_t(op) | std::uint64_t(second) << 4 |
               std::uint64_t(test) << 7 | std::uint64_t{parts} << 10 |
               std::uint64_t{to_signed} << 13 | std::uint64_t{a_signed} << 14 |
               std::uint64_t{b_signed} << 15 | std::uint64_t{saturate} << 16 |
               std::uint64_t{wrap} << 17 | std::uint64_t{plus_one} << 18 |
               std::uint64_t{shift} << 19 | std::uint64_t{a_from} << 24 |
               std::uint64_t{b_from} << 40 | std::uint64_t{to} << 56;
    return static_cast<std::int64_t>(out);
  }

  static video_form unpack(std::int64_t bits) {
    auto x = static_cast<std::uint64_t>(bits);
    auto of = [&](unsigned at, unsigned width) {
      return (x >> at) & ((std::uint64_t{1} << width) - 1);
    };
    return {video_op(of(0, 4)),
            video_second(of(4, 3)),
            video_test(of(7, 3)),
            std::uint8_t(of(10, 3)),
            of(13, 1) != 0,
            of(14, 1) != 0,
            of(15, 1) != 0,
            of(16, 1) != 0,
            of(17, 1) != 0,
            of(18, 1) != 0,
            std::uint8_t(of(19, 5)),
            std::uint16_t(of(24, 16)),
            std::uint16_t(of(40, 16)),
            std::uint8_t(of(56, 8))};
  }
};

} // namespace vgpu::device::cpu
