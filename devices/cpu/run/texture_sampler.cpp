#include "devices/cpu/run/texture_sampler.hpp"

#include "devices/cpu/run/float_format.hpp"
#include "schema/base/cuda_fault.hpp"

#include <cuda.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace vgpu::device::cpu {

namespace {

using border = texture::border;

// -- making -------------------------------------------------------------------

fault invalid(const char* what) {
  return cuda_fault(CUDA_ERROR_INVALID_VALUE, std::string{"texture: "} + what);
}

border border_of(std::uint32_t mode) {
  return static_cast<border>(std::min(mode, 3u));
}

status show_array(const texture_spec& what, const array_shape& array,
                  device_address at, texture& out) {
  auto layout = layout_of(array);
  if (!layout)
    return invalid("its array has no layout");
  auto whole = what.resource == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  auto first = whole ? 0u : what.level;
  auto last = whole ? std::uint32_t(layout->levels.size() - 1) : first;
  auto first_layer = std::uint64_t{0};
  auto layers = std::uint64_t{0};
  out.layered = array.layered();
  out.cubemap = array.cubemap();
  if (what.view != 0) {
    first += what.first_level;
    last = std::min(last, first + (what.last_level - what.first_level));
    if (what.last_layer < what.first_layer)
      return invalid("its view ends before it begins");
    if (out.layered || out.cubemap) {
      first_layer = what.first_layer;
      layers = std::uint64_t{what.last_layer} - what.first_layer + 1;
    }
  }
  if (last >= layout->levels.size() || first > last)
    return invalid("its array has no such level");
  for (auto l = first; l <= last; ++l) {
    auto& x = layout->levels[l];
    if (first_layer + layers > x.slices)
      return invalid("its array has no such layer");
    out.levels.push_back(
        {at + x.offset + first_layer * x.slice_bytes(),
         static_cast<std::int64_t>(x.width), static_cast<std::int64_t>(x.rows),
         static_cast<std::int64_t>(layers != 0 ? layers : x.slices),
         x.row_bytes, x.slice_bytes()});
  }
  return {};
}

status show_memory(const texture_spec& what, texture& out) {
  auto element = element_bytes(what.format, what.channels);
  if (element == 0)
    return invalid("its format is unknown");
  auto rows = what.resource == CU_RESOURCE_TYPE_PITCH2D;
  out.linear_memory = !rows;
  auto width = rows ? what.width : what.bytes / element;
  auto height = rows ? what.height : 1;
  if ((rows && (width == 0 || height == 0)) || width > window_bytes ||
      height > window_bytes)
    return invalid("it refers to no memory");
  out.levels.push_back({what.address, static_cast<std::int64_t>(width),
                        static_cast<std::int64_t>(height), 1, what.pitch, 0});
  return {};
}

} // namespace

result<texture> make_texture(const texture_spec& what, const array_shape* array,
                             device_address at) {
  texture out;
  auto format = element_format{what.format, what.channels};
  auto of_array = what.resource == CU_RESOURCE_TYPE_ARRAY ||
                  what.resource == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  if (of_array) {
    if (array == nullptr)
      return invalid("it refers to no array");
    if (auto ok = show_array(what, *array, at, out); !ok)
      return ok.why();
    format = {array->format, array->channels};
    if (auto as = format_of_view(what.view_format); what.view != 0 && as)
      format = *as;
    if (element_bytes(format.format, format.channels) !=
        element_bytes(array->format, array->channels))
      return invalid("its view and its array have elements of different sizes");
  } else if (auto ok = show_memory(what, out); !ok) {
    return ok.why();
  }
  out.surface = what.surface != 0;
  out.of = *channel_of(format.format);
  out.channels = format.channels;
  out.element = element_bytes(format.format, format.channels);
  out.outside = {border_of(what.address_x), border_of(what.address_y),
                 border_of(what.address_z)};
  auto is = [&](unsigned flag) { return (what.flags & flag) != 0; };
  auto is_float = out.of == channel::f32 || out.of == channel::f16;
  auto narrow = bytes_of(out.of) <= 2;
  out.normalized = is(CU_TRSF_NORMALIZED_COORDINATES);
  out.real = is_float || (narrow && !is(CU_TRSF_READ_AS_INTEGER));
  out.filtered = what.filter == CU_TR_FILTER_MODE_LINEAR && out.real;
  out.srgb = is(CU_TRSF_SRGB) && out.of == channel::u8 && out.real;
  out.seamless = is(CU_TRSF_SEAMLESS_CUBEMAP);
  out.mip_filtered = what.mip_filter == CU_TR_FILTER_MODE_LINEAR;
  auto real = [](std::uint32_t bits) { return std::bit_cast<float>(bits); };
  out.bias = real(what.bias);
  out.least_level = real(what.least_level);
  out.most_level = real(what.most_level);
  out.edge = {real(what.border_r), real(what.border_g), real(what.border_b),
              real(what.border_a)};
  return out;
}

namespace {

// -- elements -----------------------------------------------------------------

/// Holds the four channels of an element: reals where the object returns
/// floats, otherwise the integers.
struct texel {
  double c[4];
};

double from_srgb(double x) {
  return x <= 0.04045 ? x / 12.92 : std::pow((x + 0.055) / 1.055, 2.4);
}

template <class T>
T read_as(const std::byte* p) {
  T x;
  std::memcpy(&x, p, sizeof x);
  return x;
}

double channel_at(const std::byte* p, channel of, bool real) {
  auto scaled = [&](double x, double most) {
    return real ? std::max(x / most, -1.0) : x;
  };
  switch (of) {
  case channel::u8:
    return scaled(read_as<std::uint8_t>(p), 255);
  case channel::s8:
    return scaled(read_as<std::int8_t>(p), 127);
  case channel::u16:
    return scaled(read_as<std::uint16_t>(p), 65535);
  case channel::s16:
    return scaled(read_as<std::int16_t>(p), 32767);
  case channel::u32:
    return read_as<std::uint32_t>(p);
  case channel::s32:
    return read_as<std::int32_t>(p);
  case channel::f16:
    return half_to_double(read_as<std::uint16_t>(p));
  default:
    return double{read_as<float>(p)};
  }
}

/// Reads the elements of one level.
class level_view {
public:
  level_view(const memory_map& memory, const texture& of,
             const texture_level& level)
      : memory_{memory}, of_{of}, level_{level} {}

  /// Returns false once memory was missing.
  bool ok() const { return ok_; }

  /// Returns the element with these indices, each of which may lie outside.
  texel at(std::int64_t x, std::int64_t y, std::int64_t z) {
    auto inside = true;
    auto place = [&](std::int64_t i, std::int64_t n, unsigned dimension) {
      auto j = inside_of(i, n, of_.outside[dimension]);
      inside = inside && j >= 0;
      return j;
    };
    if (of_.linear_memory)
      return x >= 0 && x < level_.width ? load(x, 0, 0) : texel{};
    auto i = place(x, level_.width, 0);
    auto j = place(y, level_.height, 1);
    auto k = place(z, level_.depth, 2);
    return inside ? load(i, j, k) : outside();
  }

  /// Returns an element of a layer, whose index is clamped.
  texel in_layer(std::int64_t x, std::int64_t y, std::int64_t layer) {
    auto i = inside_of(x, level_.width, of_.outside[0]);
    auto j = inside_of(y, level_.height, of_.outside[1]);
    return i >= 0 && j >= 0
               ? load(i, j,
                      std::clamp<std::int64_t>(layer, 0, level_.depth - 1))
               : outside();
  }

  texel load(std::int64_t x, std::int64_t y, std::int64_t z) {
    auto at = level_.at + static_cast<std::uint64_t>(x) * of_.element +
              static_cast<std::uint64_t>(y) * level_.pitch +
              static_cast<std::uint64_t>(z) * level_.slice;
    texel out{};
    if (!memory_.usable(at, of_.element)) {
      ok_ = false;
      return out;
    }
    auto p = reinterpret_cast<const std::byte*>(at);
    auto bytes = bytes_of(of_.of);
    for (auto c = 0u; c < of_.channels; ++c) {
      out.c[c] = channel_at(p + c * bytes, of_.of, of_.real);
      if (of_.srgb && c < 3)
        out.c[c] = from_srgb(out.c[c]);
    }
    return out;
  }

  const texture_level& level() const { return level_; }

private:
  /// Maps an index into the level. Returns -1 where it lies outside and the
  /// element has the border's colour.
  std::int64_t inside_of(std::int64_t i, std::int64_t n, border how) const {
    if (i >= 0 && i < n)
      return i;
    // Wrapping and mirroring apply to normalized coordinates only.
    if (!of_.normalized && how != border::constant)
      how = border::clamp;
    switch (how) {
    case border::wrap:
      return (i % n + n) % n;
    case border::mirror: {
      auto j = (i % (2 * n) + 2 * n) % (2 * n);
      return j < n ? j : 2 * n - 1 - j;
    }
    case border::clamp:
      return i < 0 ? 0 : n - 1;
    default:
      return -1;
    }
  }

  /// Returns the border's colour. For integers it has as many bits as an
  /// element, as on an H200.
  texel outside() const {
    texel out{};
    for (auto c = 0u; c < 4; ++c)
      if (of_.real) {
        out.c[c] = double{of_.edge[c]};
      } else {
        auto bits = std::bit_cast<std::uint32_t>(of_.edge[c]);
        out.c[c] = channel_at(reinterpret_cast<const std::byte*>(&bits), of_.of,
                              false);
      }
    return out;
  }

  const memory_map& memory_;
  const texture& of_;
  const texture_level& level_;
  bool ok_ = true;
};

// -- coordinates --------------------------------------------------------------

/// Returns a coordinate in elements, clamped to the range of integers.
double in_elements(float x, std::int64_t n, bool normalized) {
  auto out = normalized ? double{x} * static_cast<double>(n) : double{x};
  constexpr double most = 1099511627776.0; // 2^40
  return out == out ? std::clamp(out, -most, most) : 0.0;
}

std::int64_t whole(double x) {
  return static_cast<std::int64_t>(std::floor(x));
}

/// Names two neighbouring elements, and the distance from the first with 8 bits
/// of fraction.
struct between {
  std::int64_t first;
  double part;
};
between between_of(double x) {
  auto fixed = whole((x - 0.5) * 256 + 0.5);
  return {fixed >> 8, static_cast<double>(fixed & 255) / 256};
}

texel mix(const texel& a, const texel& b, double part) {
  texel out;
  for (auto c = 0u; c < 4; ++c)
    out.c[c] = (1 - part) * a.c[c] + part * b.c[c];
  return out;
}

// -- cubemaps -----------------------------------------------------------------

struct on_face {
  int face;
  double s, t; // from 0 to 1
};

/// Returns the face and place of a direction (CUDA C++ Programming Guide,
/// "Cubemap Textures").
on_face face_of(double x, double y, double z) {
  auto ax = std::abs(x);
  auto ay = std::abs(y);
  auto az = std::abs(z);
  auto make = [](int face, double m, double s, double t) {
    m = m == 0 ? 1 : std::abs(m);
    return on_face{face, (s / m + 1) / 2, (t / m + 1) / 2};
  };
  if (az >= ax && az >= ay)
    return z >= 0 ? make(4, z, x, -y) : make(5, z, -x, -y);
  if (ay >= ax)
    return y >= 0 ? make(2, y, x, z) : make(3, y, x, -z);
  return x >= 0 ? make(0, x, -z, -y) : make(1, x, z, -y);
}

/// Returns the direction of a point in the plane of a face.
std::array<double, 3> direction_of(int face, double s, double t) {
  auto a = 2 * s - 1;
  auto b = 2 * t - 1;
  switch (face) {
  case 0:
    return {1, -b, -a};
  case 1:
    return {-1, -b, a};
  case 2:
    return {a, 1, b};
  case 3:
    return {a, -1, -b};
  case 4:
    return {a, -b, 1};
  default:
    return {-a, -b, -1};
  }
}

/// Returns an element of a face or, where it lies beyond an edge, of the next
/// face.
texel on_cube(level_view& in, int face, std::int64_t x, std::int64_t y,
              std::int64_t first_layer) {
  auto n = in.level().width;
  if (x >= 0 && x < n && y >= 0 && y < n)
    return in.in_layer(x, y, first_layer + face);
  auto size = static_cast<double>(n);
  auto way = direction_of(face, (static_cast<double>(x) + 0.5) / size,
                          (static_cast<double>(y) + 0.5) / size);
  auto to = face_of(way[0], way[1], way[2]);
  auto place = [&](double part) {
    return std::clamp<std::int64_t>(whole(part * size), 0, n - 1);
  };
  return in.in_layer(place(to.s), place(to.t), first_layer + to.face);
}

// -- one level ----------------------------------------------------------------

/// Describes a point in a plane: in a layer, or on a face and beyond its edges.
struct plane {
  float x = 0, y = 0;
  bool normalized = false;
  bool layered = false;
  std::int64_t layer = 0;
  int face = -1; // for a seamless cubemap
};

texel element_of(level_view& in, const plane& p, std::int64_t x,
                 std::int64_t y) {
  if (p.face >= 0)
    return on_cube(in, p.face, x, y, p.layer);
  return p.layered ? in.in_layer(x, y, p.layer) : in.at(x, y, 0);
}

texel in_plane(const texture& of, level_view& in, const plane& p, bool has_y) {
  auto x = in_elements(p.x, in.level().width, p.normalized);
  auto y = has_y ? in_elements(p.y, in.level().height, p.normalized) : 0.0;
  if (!of.filtered || of.linear_memory)
    return element_of(in, p, whole(x), whole(y));
  auto i = between_of(x);
  auto row = [&](std::int64_t j) {
    return mix(element_of(in, p, i.first, j), element_of(in, p, i.first + 1, j),
               i.part);
  };
  if (!has_y)
    return row(0);
  auto j = between_of(y);
  return mix(row(j.first), row(j.first + 1), j.part);
}

texel in_space(const texture& of, level_view& in, const texture_query& q) {
  auto& l = in.level();
  auto x = in_elements(q.at[0], l.width, of.normalized);
  auto y = in_elements(q.at[1], l.height, of.normalized);
  auto z = in_elements(q.at[2], l.depth, of.normalized);
  if (!of.filtered)
    return in.at(whole(x), whole(y), whole(z));
  auto i = between_of(x);
  auto j = between_of(y);
  auto k = between_of(z);
  auto row = [&](std::int64_t b, std::int64_t c) {
    return mix(in.at(i.first, b, c), in.at(i.first + 1, b, c), i.part);
  };
  auto slice = [&](std::int64_t c) {
    return mix(row(j.first, c), row(j.first + 1, c), j.part);
  };
  return mix(slice(k.first), slice(k.first + 1), k.part);
}

plane plane_of(const texture& of, const texture_query& q) {
  auto shape = q.how.shape;
  plane out{q.at[0], q.at[1], of.normalized, has_layer(shape), q.layer, -1};
  if (shape != geometry::cube && shape != geometry::acube)
    return out;
  auto to = face_of(double{q.at[0]}, double{q.at[1]}, double{q.at[2]});
  out.x = static_cast<float>(to.s);
  out.y = static_cast<float>(to.t);
  out.normalized = true;
  out.layered = true;
  auto first = shape == geometry::acube ? 6 * q.layer : 0;
  out.layer = of.seamless ? first : first + to.face;
  out.face = of.seamless ? to.face : -1;
  return out;
}

texel in_level(const texture& of, level_view& in, const texture_query& q) {
  auto shape = q.how.shape;
  if (q.how.integer) {
    auto& e = q.element;
    if (has_layer(shape))
      return in.in_layer(e[0], shape == geometry::a1 ? 0 : e[1], q.layer);
    return in.at(e[0], shape == geometry::d1 ? 0 : e[1],
                 shape == geometry::d3 ? e[2] : 0);
  }
  if (shape == geometry::d3)
    return in_space(of, in, q);
  return in_plane(of, in, plane_of(of, q),
                  shape != geometry::d1 && shape != geometry::a1);
}

/// Executes tld4: returns one channel of the four elements around the point.
texel gathered(const texture& of, level_view& in, const texture_query& q) {
  auto p = plane_of(of, q);
  auto i = between_of(in_elements(p.x, in.level().width, p.normalized)).first;
  auto j = between_of(in_elements(p.y, in.level().height, p.normalized)).first;
  auto c = q.how.component;
  auto one = [&](std::int64_t x, std::int64_t y) {
    return element_of(in, p, x, y).c[c];
  };
  return {{one(i, j + 1), one(i + 1, j + 1), one(i + 1, j), one(i, j)}};
}

// -- levels -------------------------------------------------------------------

/// Returns the level that the gradients ask for: the finest one in which the
/// step of a pixel skips no element.
double level_of(const texture& of, const texture_query& q) {
  auto& base = of.levels.front();
  const std::int64_t sizes[] = {base.width, base.height, base.depth};
  auto steps = [&](const std::array<float, 3>& d) {
    auto sum = 0.0;
    for (auto i = 0u; i < coordinates_of(q.how.shape); ++i) {
      auto x = double{d[i]};
      if (of.normalized)
        x *= static_cast<double>(sizes[i]);
      sum += x * x;
    }
    return std::sqrt(sum);
  };
  return std::log2(std::max({steps(q.dx), steps(q.dy), 1e-30}));
}

std::uint32_t integer_bits(double x) {
  return static_cast<std::uint32_t>(static_cast<std::int64_t>(x));
}

void give(const texture& of, const texel& x, std::uint32_t (&out)[4]) {
  for (auto c = 0u; c < 4; ++c)
    out[c] = of.real ? std::bit_cast<std::uint32_t>(static_cast<float>(x.c[c]))
                     : integer_bits(x.c[c]);
}

} // namespace

bool look_up(const memory_map& memory, const texture& of,
             const texture_query& q, std::uint32_t (&out)[4]) {
  auto see = [&](std::size_t level, texel& to) {
    auto in = level_view{memory, of, of.levels[level]};
    to = q.how.kind == lookup::gather ? gathered(of, in, q)
                                      : in_level(of, in, q);
    return in.ok();
  };
  texel first{};
  auto last = of.levels.size() - 1;
  if (last == 0 || q.how.kind == lookup::gather) {
    if (!see(0, first))
      return false;
    give(of, first, out);
    return true;
  }
  auto wanted = q.how.kind == lookup::level      ? double{q.level}
                : q.how.kind == lookup::gradient ? level_of(of, q)
                                                 : 0.0;
  // The bias applies only where an instruction names a level, as on an H200.
  auto level = q.how.integer || q.how.kind == lookup::base
                   ? wanted
                   : wanted + double{of.bias};
  level =
      std::min(std::max(level, double{of.least_level}), double{of.most_level});
  level = level == level ? std::clamp(level, 0.0, double(last)) : 0.0;
  if (!of.mip_filtered || !of.real) {
    if (!see(std::min(std::size_t(whole(level + 0.5)), last), first))
      return false;
    give(of, first, out);
    return true;
  }
  auto fixed = whole(level * 256 + 0.5);
  auto finer = std::size_t(fixed >> 8);
  auto part = static_cast<double>(fixed & 255) / 256;
  if (!see(finer, first))
    return false;
  if (part != 0) {
    texel second{};
    if (!see(std::min(finer + 1, last), second))
      return false;
    first = mix(first, second, part);
  }
  give(of, first, out);
  return true;
}

} // namespace vgpu::device::cpu
