#include "devices/cpu/run/float_format.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace vgpu::device::cpu {

namespace {

/// Rounds a finite value to a format with this many mantissa bits and this
/// bias, and returns its exponent and mantissa, as if exponents had no end.
std::uint32_t rounded_code(double x, int mantissa_bits, int bias,
                           rounding how) {
  auto exponent = 0;
  auto fraction = std::frexp(std::fabs(x), &exponent); // [0.5, 1)
  if (fraction == 0)
    return 0;
  // This is the unit in the last place that the result can hold.
  auto lowest = 1 - bias;
  auto place = std::max(exponent - 1, lowest) - mantissa_bits;
  auto scaled = std::ldexp(fraction, exponent - place);
  auto whole = std::floor(scaled);
  auto rest = scaled - whole;
  auto units = static_cast<std::uint32_t>(whole);
  auto negative = std::signbit(x);
  auto away = false;
  switch (how) {
  case rounding::nearest:
    away = rest > 0.5 || (rest == 0.5 && units % 2 == 1);
    break;
  case rounding::zero:
    break;
  case rounding::down:
    away = negative && rest > 0;
    break;
  case rounding::up:
    away = !negative && rest > 0;
    break;
  }
  units += away ? 1 : 0;
  // Adding the hidden bit to the exponent's place gives the biased exponent.
  auto biased = static_cast<std::uint32_t>(place + mantissa_bits - lowest);
  return (biased << mantissa_bits) + units;
}

/// Converts to a 16-bit format.
std::uint16_t narrow(double x, int mantissa_bits, int bias, rounding how) {
  auto negative = std::signbit(x);
  auto sign = static_cast<std::uint32_t>(negative ? 0x8000 : 0);
  if (std::isnan(x))
    return 0x7fff;
  auto infinity = static_cast<std::uint32_t>(2 * bias + 1) << mantissa_bits;
  if (std::isinf(x))
    return static_cast<std::uint16_t>(sign | infinity);
  auto result = rounded_code(x, mantissa_bits, bias, how);
  if (result >= infinity) {
    auto clamp = how == rounding::zero ||
                 (how == rounding::down && !negative) ||
                 (how == rounding::up && negative);
    result = clamp ? infinity - 1 : infinity;
  }
  return static_cast<std::uint16_t>(sign | result);
}

} // namespace

double half_to_double(std::uint16_t x) {
  auto exponent = std::uint64_t{x} >> 10 & 31;
  auto mantissa = std::uint64_t{x} & 1023;
  auto sign = std::uint64_t{x} >> 15 << 63;
  if (exponent == 0) {
    auto value = static_cast<double>(mantissa) * 0x1p-24;
    return sign != 0 ? -value : value;
  }
  auto wide = exponent == 31 ? 2047 : exponent + (1023 - 15);
  return std::bit_cast<double>(sign | wide << 52 | mantissa << 42);
}

std::uint16_t double_to_half(double x, rounding how) {
  return narrow(x, 10, 15, how);
}

namespace {

std::uint8_t narrow_finite(double x, int mantissa_bits, int bias,
                           std::uint32_t largest) {
  if (std::isnan(x))
    return 0x7f;
  auto code = std::isinf(x)
                  ? largest
                  : rounded_code(x, mantissa_bits, bias, rounding::nearest);
  return static_cast<std::uint8_t>((std::signbit(x) ? 0x80u : 0u) |
                                   std::min(code, largest));
}

} // namespace

double e4m3_to_double(std::uint8_t x) {
  auto exponent = x >> 3 & 15;
  auto mantissa = x & 7;
  auto value = exponent == 15 && mantissa == 7 ? std::nan("")
               : exponent == 0                 ? mantissa * 0x1p-9
                               : std::ldexp(8 + mantissa, exponent - 10);
  return (x & 0x80) != 0 ? -value : value;
}

double e5m2_to_double(std::uint8_t x) {
  return half_to_double(static_cast<std::uint16_t>(x << 8));
}

std::uint8_t double_to_e4m3(double x) {
  return narrow_finite(x, 3, 7, 0x7e);
}

std::uint8_t double_to_e5m2(double x) {
  return narrow_finite(x, 2, 15, 0x7b);
}

double bfloat_to_double(std::uint16_t x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
}

std::uint16_t double_to_bfloat(double x, rounding how) {
  return narrow(x, 7, 127, how);
}

} // namespace vgpu::device::cpu
