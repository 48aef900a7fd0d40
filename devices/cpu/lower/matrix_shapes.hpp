// The shapes of matrix instructions, shared by lowering and executor (PTX ISA,
// "Warp Level Matrix Multiply-Accumulate Instructions").
#pragma once

#include <cstdint>

namespace vgpu::device::cpu {

/// Names the type of a matrix's elements.
enum class element : std::uint8_t {
  f16,
  bf16,
  tf32,
  f32,
  f64,
  s8,
  u8,
  s4,
  u4,
  b1,
  s32,
  e4m3,
  e5m2,
};

/// Returns the bits that an element takes.
constexpr unsigned element_bits(element x) {
  switch (x) {
  case element::f16:
  case element::bf16:
    return 16;
  case element::tf32:
  case element::f32:
  case element::s32:
    return 32;
  case element::f64:
    return 64;
  case element::s4:
  case element::u4:
    return 4;
  case element::b1:
    return 1;
  default:
    return 8;
  }
}

/// Names one of the matrices of D = A * B + C.
enum class matrix_part : std::uint8_t { a, b, c };

// These are slots of the warp's scratch memory. Each holds one register of 32
// lanes, 8 bytes a lane.
inline constexpr unsigned slot_a = 0, slot_b = 8, slot_c = 16, slot_d = 24,
                          slots = 32;

/// Describes the shape of D = A * B + C, where A is m x k and B is k x n.
/// instr::imm holds it, packed.
struct matrix_shape {
  static constexpr unsigned satfinite = 1, and_popc = 2, by_columns = 4;

  unsigned m = 0, n = 0, k = 0;
  element a = element::f16, b = element::f16, c = element::f32,
          d = element::f32;
  matrix_part part = matrix_part::a; // for wmma.load and wmma.store
  unsigned registers = 0;            // of that part, for each lane
  unsigned flags = 0;

  /// Returns the number of elements in `part`.
  constexpr unsigned elements() const {
    return part == matrix_part::a   ? m * k
           : part == matrix_part::b ? n * k
                                    : m * n;
  }

  /// Returns the bits for instr::imm.
  constexpr std::int64_t pack() const {
    auto out = std::uint64_t{m} | std::uint64_t{n} << 8 |
               std::uint64_t{k} << 16 | std::uint64_t(a) << 32 |
               std::uint64_t(b) << 36 | std::uint64_t(c) << 40 |
               std::uint64_t(d) << 44 | std::uint64_t(part) << 48 |
               std::uint64_t{registers} << 50 | std::uint64_t{flags} << 56;
    return static_cast<std::int64_t>(out);
  }

  static constexpr matrix_shape unpack(std::int64_t bits) {
    auto x = static_cast<std::uint64_t>(bits);
    auto of = [&](unsigned at, unsigned width) {
      return static_cast<unsigned>(x >> at) & ((1u << width) - 1);
    };
    return {of(0, 8),           of(8, 8),
            of(16, 16),         element(of(32, 4)),
            element(of(36, 4)), element(of(40, 4)),
            element(of(44, 4)), matrix_part(of(48, 2)),
            of(50, 6),          of(56, 8)};
  }
};

} // namespace vgpu::device::cpu
