// Textures and surfaces by their objects: tex, tld4, txq, suld, sust, sured,
// suq (PTX ISA, "Texture Instructions", "Surface Instructions"). Their many
// registers go through the warp's scratch memory, as those of matrix
// instructions do.
#include "devices/cpu/lower/function_lowering.hpp"
#include "devices/cpu/ptx/ptx_parser.hpp"

#include <algorithm>
#include <iterator>

namespace vgpu::device::cpu {

namespace {

std::optional<geometry> geometry_named(std::string_view x) {
  static constexpr std::pair<std::string_view, geometry> names[] = {
      {"1d", geometry::d1},      {"2d", geometry::d2},
      {"3d", geometry::d3},      {"a1d", geometry::a1},
      {"a2d", geometry::a2},     {"cube", geometry::cube},
      {"acube", geometry::acube}};
  for (auto& [name, value] : names)
    if (name == x)
      return value;
  return std::nullopt;
}

/// Returns how many registers name a place. Vectors have 1, 2 or 4.
std::size_t registers_of(geometry x) {
  auto count = coordinates_of(x) + (has_layer(x) ? 1u : 0u);
  return count == 3 ? 4 : count;
}

} // namespace

void function_lowering::put_slots(std::span<const op> from, unsigned slot,
                                  char width) {
  for (auto& x : from) {
    auto id = x.is == kind::reg ? x.number : source(x, width);
    auto own = width_of(id);
    if (own != '2' && own != '4' && own != '8')
      fail(now_->text() + " reads a register of the wrong size");
    emit(std::string{"texture.put."} + own, {-1, source(x, own)}, slot++);
  }
}

/// Reads results from slots. Registers may be wider than the results.
void function_lowering::get_slots(std::span<const op> to, unsigned slot,
                                  char width) {
  for (auto& x : to) {
    if (x.is != kind::sink) {
      auto own = x.is == kind::reg ? width_of(x.number) : '0';
      if (own < width || (own != '2' && own != '4' && own != '8'))
        fail(now_->text() + " writes a register of the wrong size");
      emit(std::string{"texture.get."} + own, {destination(x, own)}, slot);
    }
    ++slot;
  }
}

/// Stores the object and the coordinates into slots.
void function_lowering::put_coordinates(const op& x, geometry shape,
                                        char width) {
  if (x.is != kind::address || x.elements.size() != 2)
    fail(now_->text() + " needs an object and coordinates in brackets");
  auto& object = x.elements[0];
  if (object.is != kind::reg || width_of(object.number) != '8')
    fail(now_->text() + ": texture and surface references are not supported; "
                        "use an object in a register of 64 bits");
  emit("texture.put.8", {-1, object.number}, slot_object);
  auto& at = x.elements[1];
  auto parts = at.is == kind::vector ? at.elements : std::vector<op>{at};
  if (parts.size() != registers_of(shape) &&
      parts.size() != coordinates_of(shape) + (has_layer(shape) ? 1u : 0u))
    fail(now_->text() + " has the wrong number of coordinates");
  put_slots(parts, slot_coordinate, width);
}

void function_lowering::texture_lookup() {
  texture_op how;
  std::optional<geometry> shape;
  std::vector<ptx::type> types;
  auto values = 1u;
  auto gathers = now_->name == "tld4";
  if (gathers)
    how.kind = lookup::gather;
  for (auto& m : now_->modifiers) {
    if (auto g = geometry_named(m))
      shape = g;
    else if (m == "v4" || m == "v2")
      values = m == "v4" ? 4 : 2;
    else if (m == "level" && !gathers)
      how.kind = lookup::level;
    else if (m == "grad" && !gathers)
      how.kind = lookup::gradient;
    else if (m == "base" && !gathers)
      how.kind = lookup::base;
    else if (gathers && (m == "r" || m == "g" || m == "b" || m == "a"))
      how.component = m == "r" ? 0 : m == "g" ? 1 : m == "b" ? 2 : 3;
    else if (auto t = ptx::parse_type(m))
      types.push_back(*t);
    else
      unsupported(); // multisampled textures
  }
  if (!shape || types.size() != 2)
    unsupported();
  auto halves = types[0].kind == 'f' && types[0].bytes == 2;
  auto pairs = types[0].packed && types[0].kind == 'f';
  how.shape = *shape;
  how.integer = types[1].kind == 's';
  auto cube = *shape == geometry::cube || *shape == geometry::acube;
  if (types[1].bytes != 4 || (types[1].kind != 's' && types[1].kind != 'f') ||
      (types[0].bytes != 4 && !halves) || values != (pairs ? 2u : 4u) ||
      types[0].kind == 'h' || (how.integer && (cube || gathers)) ||
      (gathers && (*shape == geometry::d1 || *shape == geometry::a1 ||
                   *shape == geometry::d3)))
    unsupported();
  auto extra = how.kind == lookup::level      ? 1u
               : how.kind == lookup::gradient ? 2u
                                              : 0u;
  // Further operands would be offsets and depth comparisons.
  if (now_->operands.size() != 2 + extra)
    unsupported();
  put_coordinates(arg(1), *shape, '4');
  if (how.kind == lookup::level)
    put_slots({&arg(2), 1}, slot_level, '4');
  if (how.kind == lookup::gradient)
    for (auto i = 0u; i < 2; ++i) {
      auto& d = arg(2 + i);
      auto parts = d.is == kind::vector ? d.elements : std::vector<op>{d};
      auto count = coordinates_of(*shape);
      if (parts.size() < count)
        fail(now_->text() + " has too few gradients");
      parts.resize(count);
      put_slots(parts, slot_gradient + 3 * i, '4');
    }
  auto& d = arg(0);
  auto& to = d.is == kind::pair ? d.elements[0] : d;
  if (to.is != kind::vector || to.elements.size() != values)
    fail(now_->text() + " needs a vector of registers");
  emit(pairs    ? "texture.look.f16x2"
       : halves ? "texture.look.f16"
                : "texture.look",
       {}, how.pack());
  get_slots(to.elements, slot_value, halves ? '2' : '4');
  if (d.is == kind::pair) // the memory is always there
    emit("mov.pred",
         {predicate_destination(d.elements[1]), constant('p', all_lanes)});
}

void function_lowering::surface_access() {
  texture_op how;
  std::optional<geometry> shape;
  std::optional<ptx::type> type;
  auto& n = now_->name;
  auto reduces = n == "sured";
  auto stores = n == "sust" || reduces;
  auto op_name = std::string_view{};
  for (auto& m : now_->modifiers) {
    if (auto g = geometry_named(m))
      shape = g;
    else if (m == "b" || m == "p")
      how.formatted = m == "p";
    else if (m == "v2" || m == "v4")
      how.values = m == "v2" ? 2 : 4;
    else if (m == "trap" || m == "clamp" || m == "zero")
      how.beyond = m == "trap"    ? outside::trap
                   : m == "clamp" ? outside::clamp
                                  : outside::zero;
    else if (reduces && (m == "add" || m == "min" || m == "max" || m == "and" ||
                         m == "or"))
      op_name = m;
    else if (m == "ca" || m == "cg" || m == "cs" || m == "cv" || m == "wb" ||
             m == "wt")
      continue; // hints
    else if (auto t = ptx::parse_type(m))
      type = t;
    else
      unsupported();
  }
  if (!shape || !type || type->packed || type->bytes > 8 ||
      *shape == geometry::cube || *shape == geometry::acube ||
      (how.formatted && (n == "suld" || type->bytes != 4)) ||
      reduces != !op_name.empty() || (reduces && type->bytes < 4))
    unsupported();
  how.shape = *shape;
  how.bytes = type->bytes;
  if (reduces) {
    auto is_signed = type->kind == 's';
    if (how.values != 1)
      unsupported();
    how.atomic = op_name == "add"   ? surface_atomic::add
                 : op_name == "and" ? surface_atomic::bit_and
                 : op_name == "or"  ? surface_atomic::bit_or
                 : op_name == "min" ? (is_signed ? surface_atomic::min_signed
                                                 : surface_atomic::min_unsigned)
                 : is_signed        ? surface_atomic::max_signed
                                    : surface_atomic::max_unsigned;
  }
  need(2);
  put_coordinates(arg(stores ? 0 : 1), *shape, '4');
  auto& v = arg(stores ? 1 : 0);
  auto parts = v.is == kind::vector ? v.elements : std::vector<op>{v};
  if (parts.size() != how.values)
    fail(now_->text() + " needs " + std::to_string(how.values) +
         " registers of values");
  auto width = char('0' + std::max<unsigned>(2, type->bytes));
  if (stores)
    put_slots(parts, slot_value, width);
  emit("texture." + n, {}, how.pack());
  if (!stores)
    get_slots(parts, slot_value, width);
}

void function_lowering::texture_query() {
  static constexpr std::pair<std::string_view, texture_fact> names[] = {
      {"width", texture_fact::width},
      {"height", texture_fact::height},
      {"depth", texture_fact::depth},
      {"array_size", texture_fact::array_size},
      {"num_mipmap_levels", texture_fact::levels},
      {"num_samples", texture_fact::samples},
      {"channel_data_type", texture_fact::data_type},
      {"channel_order", texture_fact::order},
      {"normalized_coords", texture_fact::normalized},
      {"filter_mode", texture_fact::filter},
      {"addr_mode_0", texture_fact::address_x},
      {"addr_mode_1", texture_fact::address_y},
      {"addr_mode_2", texture_fact::address_z},
      {"memory_layout", texture_fact::layout}};
  std::optional<texture_fact> what;
  for (auto& m : now_->modifiers) {
    auto named = std::find_if(std::begin(names), std::end(names),
                              [&](auto& x) { return x.first == m; });
    if (named != std::end(names))
      what = named->second;
    else if (m != "b32" && m != "level")
      unsupported();
  }
  auto level = has("level");
  need(level ? 3 : 2);
  auto& x = arg(1);
  if (!what || x.is != kind::address || x.elements.size() != 1)
    unsupported();
  auto& object = x.elements[0];
  if (object.is != kind::reg || width_of(object.number) != '8')
    fail(now_->text() + ": texture and surface references are not supported; "
                        "use an object in a register of 64 bits");
  emit("texture.query",
       {destination(arg(0), '4'), object.number,
        level ? source(arg(2), '4') : constant('4', 0)},
       std::int64_t(*what));
}

} // namespace vgpu::device::cpu
