// The texture and surface instructions, as their constant holds them (PTX ISA,
// "Texture Instructions" and "Surface Instructions").
#pragma once

#include <cstdint>
#include <initializer_list>

namespace vgpu::device::cpu {

/// Names the geometry of an object. a1 and a2 are arrays of layers.
enum class geometry : std::uint8_t { d1, d2, d3, a1, a2, cube, acube };

/// Returns how many coordinates select an element, without the layer.
constexpr unsigned coordinates_of(geometry x) noexcept {
  switch (x) {
  case geometry::d1:
  case geometry::a1:
    return 1;
  case geometry::d2:
  case geometry::a2:
    return 2;
  default:
    return 3;
  }
}
/// Tells whether a layer precedes the coordinates.
constexpr bool has_layer(geometry x) noexcept {
  return x == geometry::a1 || x == geometry::a2 || x == geometry::acube;
}

/// Says how an instruction chooses the level of detail, or that it gathers.
enum class lookup : std::uint8_t { base, level, gradient, gather };
/// Says what an access outside of the surface does.
enum class outside : std::uint8_t { trap, clamp, zero };
/// Names the operation of sured.
enum class surface_atomic : std::uint8_t {
  add,
  min_signed,
  min_unsigned,
  max_signed,
  max_unsigned,
  bit_and,
  bit_or
};

/// Holds all that a texture or surface instruction's constant says.
struct texture_op {
  geometry shape = geometry::d2;
  lookup kind = lookup::base;
  bool integer = false;       // the coordinates count elements
  std::uint8_t component = 0; // the channel that a gather returns
  // For surfaces:
  outside beyond = outside::trap;
  bool formatted = false;  // x counts elements, and values are converted
  std::uint8_t bytes = 4;  // size of a register's value
  std::uint8_t values = 1; // number of registers
  surface_atomic atomic = surface_atomic::add;

  /// Returns the bits for instr::imm.
  std::int64_t pack() const noexcept {
    auto out = std::int64_t{0};
    auto at = 0;
    for (auto part :
         {unsigned(shape), unsigned(kind), unsigned(integer),
          unsigned(component), unsigned(beyond), unsigned(formatted),
          unsigned(bytes), unsigned(values), unsigned(atomic)}) {
      out |= std::int64_t{part} << at;
      at += 4;
    }
    return out;
  }
  static texture_op unpack(std::int64_t x) noexcept {
    auto part = [&](int i) { return std::uint8_t(x >> (4 * i) & 15); };
    return {geometry(part(0)), lookup(part(1)),  part(2) != 0,
            part(3),           outside(part(4)), part(5) != 0,
            part(6),           part(7),          surface_atomic(part(8))};
  }
};

/// Names the attribute that txq or suq asks for. instr::imm holds it.
enum class texture_fact : std::uint8_t {
  width,
  height,
  depth,
  array_size,
  levels,
  samples,
  data_type,
  order,
  normalized,
  filter,
  address_x,
  address_y,
  address_z,
  layout
};

/// These are slots of the warp's scratch memory, 32 words each
/// (devices/cpu/exec/texture_ops.cpp).
inline constexpr unsigned slot_object = 0;
inline constexpr unsigned slot_coordinate = 1; // up to 4
inline constexpr unsigned slot_level = 5;
inline constexpr unsigned slot_gradient = 6; // twice 3, or two vectors
inline constexpr unsigned slot_value = 14;   // up to 4, in and out

} // namespace vgpu::device::cpu
