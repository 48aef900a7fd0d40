// Conversions to and from the 16-bit and 8-bit floating point formats, bit by
// bit, so that they are the same on every host.
#pragma once

#include <cstdint>

namespace vgpu::device::cpu {

/// How a value between two representable ones is rounded; the numbers are
/// those of mod::rn and its kin.
enum class rounding : std::uint8_t { nearest, zero, down, up };

double half_to_double(std::uint16_t x);
/// NaN gives 0x7fff.
std::uint16_t double_to_half(double x, rounding how);

/// The 8-bit formats. Values that are too large become the largest finite one
/// (PTX knows these conversions with .satfinite only).
double e4m3_to_double(std::uint8_t x);
double e5m2_to_double(std::uint8_t x);
std::uint8_t double_to_e4m3(double x);
std::uint8_t double_to_e5m2(double x);

double bfloat_to_double(std::uint16_t x);
std::uint16_t double_to_bfloat(double x, rounding how);

} // namespace vgpu::device::cpu
