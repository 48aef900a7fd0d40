#include "devices/cpu/float_format.hpp"

#include <bit>
#include <cmath>

namespace vgpu::device::cpu {

namespace {

/// Rounds a finite or infinite double to a 16-bit format with that many
/// mantissa bits and that exponent bias.
std::uint16_t narrow(double x, int mantissa_bits, int bias, rounding how) {
  auto bits = std::bit_cast<std::uint64_t>(x);
  auto negative = (bits >> 63) != 0;
  auto sign = static_cast<std::uint32_t>(negative ? 0x8000 : 0);
  if (std::isnan(x))
    return 0x7fff;
  auto max_exponent = 2 * bias + 1;
  auto infinity = static_cast<std::uint32_t>(max_exponent) << mantissa_bits;
  if (std::isinf(x))
    return static_cast<std::uint16_t>(sign | infinity);
  auto exponent = 0;
  auto fraction = std::frexp(std::fabs(x), &exponent); // [0.5, 1)
  if (fraction == 0)
    return static_cast<std::uint16_t>(sign);
  // The unit in the last place that the result can hold.
  auto lowest = 1 - bias;
  auto place = std::max(exponent - 1, lowest) - mantissa_bits;
  auto scaled = std::ldexp(fraction, exponent - place);
  auto whole = std::floor(scaled);
  auto rest = scaled - whole;
  auto units = static_cast<std::uint32_t>(whole);
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
  // The biased exponent comes out of adding the hidden bit to its place.
  auto biased = static_cast<std::uint32_t>(place + mantissa_bits - lowest);
  auto result = (biased << mantissa_bits) + units;
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
  auto exponent = (x >> 10) & 31;
  auto mantissa = x & 1023;
  auto value = exponent == 31  ? (mantissa != 0 ? std::nan("") : HUGE_VAL)
               : exponent == 0 ? std::ldexp(mantissa, -24)
                               : std::ldexp(mantissa + 1024, exponent - 25);
  return (x & 0x8000) != 0 ? -value : value;
}

std::uint16_t double_to_half(double x, rounding how) {
  return narrow(x, 10, 15, how);
}

double bfloat_to_double(std::uint16_t x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
}

std::uint16_t double_to_bfloat(double x, rounding how) {
  return narrow(x, 7, 127, how);
}

} // namespace vgpu::device::cpu
