// Conversions to and from 16-bit and 8-bit floating-point formats. They work
// bit by bit, so that every host gets the same results.
#pragma once

#include <cstdint>

namespace vgpu::device::cpu {

/// Says how a value between two representable ones is rounded. The numbers are
/// those of program.hpp: rn, rz, rm and rp.
enum class rounding : std::uint8_t { nearest, zero, down, up };

/// Converts from half precision, exactly.
double half_to_double(std::uint16_t x);
/// Converts to half precision. A NaN becomes 0x7fff.
std::uint16_t double_to_half(double x, rounding how);

/// Converts from and to the 8-bit formats. Values that are too large become the
/// largest finite one, because PTX has these conversions with .satfinite only.
double e4m3_to_double(std::uint8_t x);
double e5m2_to_double(std::uint8_t x);
std::uint8_t double_to_e4m3(double x);
std::uint8_t double_to_e5m2(double x);

/// Converts from bfloat16, exactly.
double bfloat_to_double(std::uint16_t x);
/// Converts to bfloat16. A NaN becomes 0x7fff.
std::uint16_t double_to_bfloat(double x, rounding how);

} // namespace vgpu::device::cpu
