// Matrix instructions: wmma, mma, ldmatrix, stmatrix, movmatrix.
#include "devices/cpu/lower/function_lowering.hpp"
#include "devices/cpu/lower/matrix_shapes.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace vgpu::device::cpu {

namespace {

std::optional<element> element_named(std::string_view x) {
  static constexpr std::pair<std::string_view, element> names[] = {
      {"f16", element::f16},   {"bf16", element::bf16}, {"tf32", element::tf32},
      {"f32", element::f32},   {"f64", element::f64},   {"s8", element::s8},
      {"u8", element::u8},     {"s4", element::s4},     {"u4", element::u4},
      {"b1", element::b1},     {"s32", element::s32},   {"e4m3", element::e4m3},
      {"e5m2", element::e5m2},
  };
  for (auto& [name, value] : names)
    if (name == x)
      return value;
  return std::nullopt;
}

/// Parses a shape such as m16n8k16.
bool parse_shape(std::string_view x, matrix_shape& to) {
  auto end = x.data() + x.size();
  auto at = x.data();
  for (auto [letter, value] :
       {std::pair{'m', &to.m}, std::pair{'n', &to.n}, std::pair{'k', &to.k}}) {
    if (at == end || *at != letter)
      return false;
    auto got = std::from_chars(at + 1, end, *value);
    if (got.ec != std::errc{})
      return false;
    at = got.ptr;
  }
  return at == end;
}

enum family : unsigned {
  half_like,
  tf32_like,
  double_like,
  byte_like,
  nibble_like,
  bit_like,
  none
};

family family_of(element x) {
  switch (x) {
  case element::f16:
  case element::bf16:
    return half_like;
  case element::tf32:
    return tf32_like;
  case element::f64:
    return double_like;
  case element::s8:
  case element::u8:
  case element::e4m3:
  case element::e5m2:
    return byte_like;
  case element::s4:
  case element::u4:
    return nibble_like;
  case element::b1:
    return bit_like;
  default:
    return none;
  }
}

struct known_shape {
  family of;
  unsigned m, n, k;
};

// The supported shapes (PTX ISA, "Matrix Shape"). m8n8k4 of f16 has another
// layout and is not among them.
constexpr known_shape mma_shapes[] = {
    {half_like, 16, 8, 8},    {half_like, 16, 8, 16},   {tf32_like, 16, 8, 4},
    {tf32_like, 16, 8, 8},    {double_like, 8, 8, 4},   {double_like, 16, 8, 4},
    {double_like, 16, 8, 8},  {double_like, 16, 8, 16}, {byte_like, 8, 8, 16},
    {byte_like, 16, 8, 16},   {byte_like, 16, 8, 32},   {nibble_like, 8, 8, 32},
    {nibble_like, 16, 8, 32}, {nibble_like, 16, 8, 64}, {bit_like, 8, 8, 128},
    {bit_like, 16, 8, 128},   {bit_like, 16, 8, 256},
};
constexpr known_shape wmma_shapes[] = {
    {half_like, 16, 16, 16}, {half_like, 8, 32, 16}, {half_like, 32, 8, 16},
    {byte_like, 16, 16, 16}, {byte_like, 8, 32, 16}, {byte_like, 32, 8, 16},
    {tf32_like, 16, 16, 8},  {double_like, 8, 8, 4}, {nibble_like, 8, 8, 32},
    {bit_like, 8, 8, 128},
};

template <std::size_t N>
bool is_known(const known_shape (&table)[N], family f, const matrix_shape& x) {
  return std::any_of(std::begin(table), std::end(table), [&](auto& s) {
    return s.of == f && s.m == x.m && s.n == x.n && s.k == x.k;
  });
}

/// Tells whether operands of these types may be multiplied into such results.
bool types_fit(const matrix_shape& x) {
  auto f = family_of(x.a);
  auto short_float = x.a == element::e4m3 || x.a == element::e5m2;
  auto same = family_of(x.b) == f && (f != half_like || x.a == x.b) &&
              (x.b == element::e4m3 || x.b == element::e5m2) == short_float;
  if (!same)
    return false;
  auto real = [](element t) { return t == element::f16 || t == element::f32; };
  switch (f) {
  case half_like:
    return x.a == element::f16 ? real(x.c) && real(x.d)
                               : x.c == element::f32 && x.d == element::f32;
  case tf32_like:
    return x.c == element::f32 && x.d == element::f32;
  case double_like:
    return x.c == element::f64 && x.d == element::f64;
  case byte_like:
    if (short_float)
      return real(x.c) && real(x.d);
    [[fallthrough]];
  case nibble_like:
  case bit_like:
    return x.c == element::s32 && x.d == element::s32;
  default:
    return false;
  }
}

unsigned registers_of(element t, unsigned elements_a_lane) {
  auto bits = element_bits(t);
  return bits >= 32 ? elements_a_lane : elements_a_lane * bits / 32;
}

} // namespace

/// Waits until every lane of the warp is here.
void function_lowering::gather_warp() {
  emit("bar.warp.sync", {-1, constant('4', all_lanes)});
}

void function_lowering::put_matrix(const op& x, unsigned slot, char width,
                                   std::size_t count) {
  auto parts = x.is == kind::vector ? x.elements : std::vector<op>{x};
  if (parts.size() != count)
    fail(now_->text() + " needs " + std::to_string(count) + " registers, not " +
         std::to_string(parts.size()));
  for (auto i = std::size_t{0}; i < count; i += 5) {
    auto ids = std::array<int, 5>{-1, -1, -1, -1, -1};
    for (auto j = i; j < std::min(i + 5, count); ++j)
      ids[j - i] = source(parts[j], width);
    emit(width == '4' ? "matrix.put.4" : "matrix.put.8",
         {-1, ids[0], ids[1], ids[2], ids[3], ids[4]}, std::int64_t(slot + i));
  }
}

void function_lowering::get_matrix(const op& x, unsigned slot, char width,
                                   std::size_t count) {
  auto parts = x.is == kind::vector ? x.elements : std::vector<op>{x};
  if (parts.size() != count)
    fail(now_->text() + " needs " + std::to_string(count) + " registers, not " +
         std::to_string(parts.size()));
  for (auto i = std::size_t{0}; i < count; i += 6) {
    auto ids = std::array<int, 6>{-1, -1, -1, -1, -1, -1};
    for (auto j = i; j < std::min(i + 6, count); ++j)
      ids[j - i] = destination(parts[j], width);
    emit(width == '4' ? "matrix.get.4" : "matrix.get.8",
         {ids[0], ids[1], ids[2], ids[3], ids[4], ids[5]},
         std::int64_t(slot + i));
  }
}

void function_lowering::matrix_multiply() {
  auto x = matrix_shape{};
  auto types = std::vector<element>{};
  auto shaped = false;
  auto popc = false;
  auto wmma = now_->name == "wmma";
  for (auto& m : now_->modifiers) {
    if (auto t = element_named(m))
      types.push_back(*t);
    else if (parse_shape(m, x))
      shaped = true;
    else if (m == "satfinite")
      x.flags |= matrix_shape::satfinite;
    else if (m == "and" || m == "xor")
      x.flags |= m == "and" ? matrix_shape::and_popc : 0u;
    else if (m == "popc")
      popc = true;
    else if (m != "sync" && m != "aligned" && m != "row" && m != "col" &&
             m != "mma" && m != "rn")
      unsupported();
  }
  if (wmma && types.size() == 2)
    types = {types[0], element::f16, element::f16, types[1]};
  if (!shaped || types.size() != 4)
    unsupported();
  x.d = types[0];
  x.a = types[1];
  x.b = types[2];
  x.c = types[3];
  auto f = family_of(x.a);
  if (!types_fit(x) || (f == bit_like) != popc ||
      !(wmma ? is_known(wmma_shapes, f, x) : is_known(mma_shapes, f, x)))
    unsupported();
  need(4);
  auto width = [](element t) { return element_bits(t) == 64 ? '8' : '4'; };
  // Fragments of f16 always take eight registers, so elements occur more than
  // once.
  auto operands = [&](unsigned elements, element t) {
    return wmma && t == element::f16 ? 8u : registers_of(t, elements / lanes);
  };
  gather_warp();
  put_matrix(arg(1), slot_a, width(x.a), operands(x.m * x.k, x.a));
  put_matrix(arg(2), slot_b, width(x.b), operands(x.n * x.k, x.b));
  put_matrix(arg(3), slot_c, width(x.c), registers_of(x.c, x.m * x.n / lanes));
  emit(wmma ? "wmma.mma" : "mma", {}, x.pack());
  get_matrix(arg(0), slot_d, width(x.d), registers_of(x.d, x.m * x.n / lanes));
}

void function_lowering::matrix_memory() {
  auto x = matrix_shape{};
  auto type = std::optional<element>{};
  auto shaped = false;
  auto where = ptx::space::generic;
  auto part = char{};
  auto columns = std::optional<bool>{};
  auto store = has("store");
  for (auto& m : now_->modifiers) {
    if (m == "a" || m == "b" || m == "c" || m == "d")
      part = m[0];
    else if (m == "row" || m == "col")
      columns = m == "col";
    else if (auto t = element_named(m))
      type = *t;
    else if (parse_shape(m, x))
      shaped = true;
    else if (auto s = space_named(m))
      where = *s;
    else if (m != "sync" && m != "aligned" && m != "load" && m != "store")
      unsupported();
  }
  if (!shaped || !type || !columns || (part == 'd') != store ||
      (where != ptx::space::generic && where != ptx::space::global &&
       where != ptx::space::shared))
    unsupported();
  auto t = *type;
  auto known = [&](std::initializer_list<family> of) {
    return std::any_of(of.begin(), of.end(),
                       [&](family f) { return is_known(wmma_shapes, f, x); });
  };
  auto accumulator = part == 'c' || part == 'd';
  if (accumulator) {
    x.part = matrix_part::c;
    x.c = t;
    auto ok = t == element::f16   ? known({half_like})
              : t == element::f32 ? known({half_like, tf32_like})
              : t == element::f64 ? known({double_like})
              : t == element::s32 ? known({byte_like, nibble_like, bit_like})
                                  : false;
    if (!ok)
      unsupported();
  } else {
    x.part = part == 'a' ? matrix_part::a : matrix_part::b;
    (part == 'a' ? x.a : x.b) = t;
    // Elements that share bytes go only by rows of A and columns of B.
    if (family_of(t) == none || !known({family_of(t)}) || t == element::e4m3 ||
        t == element::e5m2 ||
        (element_bits(t) < 8 && *columns != (part == 'b')))
      unsupported();
  }
  x.flags |= *columns ? matrix_shape::by_columns : 0u;
  x.registers = !accumulator && t == element::f16
                    ? 8u
                    : registers_of(t, x.elements() / lanes);
  auto& ops = now_->operands;
  if (ops.size() < 2 || ops.size() > 3)
    fail(now_->text() + " needs 2 or 3 operands");
  auto rows = x.part == matrix_part::b ? x.k : x.m;
  auto cols = x.part == matrix_part::a ? x.k : x.n;
  auto stride = ops.size() == 3 ? source(arg(2), '4')
                                : constant('4', *columns ? rows : cols);
  auto width = element_bits(t) == 64 ? '8' : '4';
  gather_warp();
  auto address = generic_address(arg(store ? 0 : 1), where);
  if (store)
    put_matrix(arg(1), slot_d, width, x.registers);
  emit(store ? "wmma.store" : "wmma.load", {-1, address, stride}, x.pack());
  if (!store)
    get_matrix(arg(0), slot_d, width, x.registers);
}

void function_lowering::matrix() {
  auto& n = now_->name;
  if (n == "mma" || (n == "wmma" && has("mma")))
    matrix_multiply();
  else if (n == "wmma" && (has("load") || has("store")))
    matrix_memory();
  else if (n != "wmma")
    matrix_rows();
  else
    unsupported();
}

/// Lowers ldmatrix, stmatrix and movmatrix.
void function_lowering::matrix_rows() {
  auto& n = now_->name;
  auto where = ptx::space::generic;
  auto count = 0u;
  for (auto& m : now_->modifiers) {
    if (m == "x1" || m == "x2" || m == "x4")
      count = unsigned(m[1] - '0');
    else if (auto s = space_named(m))
      where = *s;
    else if (m != "sync" && m != "aligned" && m != "m8n8" && m != "trans" &&
             m != "b16")
      unsupported();
  }
  need(2);
  auto moves = n == "movmatrix";
  if (!has("m8n8") || !has("b16") || (count == 0) != moves ||
      (moves && !has("trans")) ||
      (where != ptx::space::generic && where != ptx::space::shared))
    unsupported();
  gather_warp();
  if (moves) {
    put_matrix(arg(1), slot_d, '4', 1);
    emit("movmatrix.trans", {});
    get_matrix(arg(0), slot_d, '4', 1);
    return;
  }
  auto key = n + (has("trans") ? ".trans" : "");
  auto store = n == "stmatrix";
  auto address = generic_address(arg(store ? 0 : 1), where);
  if (store)
    put_matrix(arg(1), slot_d, '4', count);
  emit(key, {-1, address}, std::int64_t(count));
  if (!store)
    get_matrix(arg(0), slot_d, '4', count);
}

} // namespace vgpu::device::cpu
