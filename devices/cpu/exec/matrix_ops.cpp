// Matrix instructions: mma, wmma, ldmatrix, stmatrix, movmatrix. Their many
// registers go through the warp's scratch memory: "matrix.put" instructions
// fill it, the operation works there, and "matrix.get" instructions read the
// results. No other instruction comes between, because the warp's lanes were
// gathered before the first one.
#include <memory>

#include "devices/cpu/exec/begin.hpp"
#include "devices/cpu/exec/numbers.inl"
#include "devices/cpu/exec/spaces.inl"

inline u64* slot(warp& w, unsigned i) {
  return reinterpret_cast<u64*>(w.scratch()) + i * lanes;
}

template <class T>
const instr* put(warp& w, const instr* in) {
  constexpr field from[] = {fa, fb, fc, fe, ff};
  for (auto i = 0u; i < std::size(from) && in->o[from[i]] >= 0; ++i) {
    auto a = reg<T>(w, in, from[i]);
    auto to = slot(w, u32(in->imm) + i);
    for (auto l = 0u; l < lanes; ++l)
      to[l] = a[l];
  }
  return in + 1;
}

template <class T>
const instr* get(warp& w, const instr* in) {
  constexpr field to[] = {fd, fa, fb, fc, fe, ff};
  for (auto i = 0u; i < std::size(to) && in->o[to[i]] >= 0; ++i) {
    auto d = reg<T>(w, in, to[i]);
    auto from = slot(w, u32(in->imm) + i);
    each_lane(w.mask, [&](unsigned l) { d[l] = T(from[l]); });
  }
  return in + 1;
}

// -- elements -----------------------------------------------------------------

inline f64 real_of(element t, u64 bits) {
  switch (t) {
  case element::f16:
    return half_to_double(u16(bits));
  case element::bf16:
    return bfloat_to_double(u16(bits));
  case element::tf32:
    // The hardware reads the upper 19 bits.
    return std::bit_cast<f32>(u32(bits) & 0xffffe000u);
  case element::f32:
    return std::bit_cast<f32>(u32(bits));
  case element::f64:
    return std::bit_cast<f64>(bits);
  case element::e4m3:
    return e4m3_to_double(std::uint8_t(bits));
  case element::e5m2:
    return e5m2_to_double(std::uint8_t(bits));
  default:
    return 0;
  }
}

inline u64 bits_of(element t, f64 x) {
  switch (t) {
  case element::f16:
    return double_to_half(x, rounding::nearest);
  case element::f32:
    return std::bit_cast<u32>(canonical(f32(x)));
  case element::f64:
    return std::bit_cast<u64>(x);
  default:
    return 0;
  }
}

inline s64 integer_of(element t, u64 bits) {
  switch (t) {
  case element::s8:
    return s8(bits);
  case element::u8:
    return u8(bits);
  case element::s4:
    return s64(bits << 60) >> 60;
  case element::u4:
    return s64(bits & 15);
  case element::s32:
    return s32(bits);
  default:
    return s64(bits & 1);
  }
}

// Returns element e of lane l in a fragment whose registers begin at slot
// `first`.
inline u64 element_at(warp& w, unsigned first, element t, unsigned l,
                      unsigned e) {
  auto bits = element_bits(t);
  if (bits >= 32)
    return slot(w, first + e)[l];
  auto at = e * bits;
  auto word = slot(w, first + at / 32)[l] >> (at % 32);
  return word & ((u64{1} << bits) - 1);
}

inline void set_element(warp& w, unsigned first, element t, unsigned l,
                        unsigned e, u64 value) {
  auto bits = element_bits(t);
  if (bits >= 32) {
    slot(w, first + e)[l] = value;
    return;
  }
  auto at = e * bits;
  auto& word = slot(w, first + at / 32)[l];
  auto keep = ((u64{1} << bits) - 1) << (at % 32);
  word = (word & ~keep) | ((value << (at % 32)) & keep);
}

// -- where the elements of fragments are --------------------------------------

// The layout of wmma fragments, which the ISA leaves to the device. Here
// element e of lane l is number l * (elements of a lane) + e, with A and C by
// rows and B by columns.
struct flat_layout {
  static void a(const matrix_shape& x, unsigned l, unsigned e, unsigned& row,
                unsigned& k) {
    auto at = l * (x.m * x.k / lanes) + e;
    row = at / x.k;
    k = at % x.k;
  }
  static void b(const matrix_shape& x, unsigned l, unsigned e, unsigned& col,
                unsigned& k) {
    auto at = l * (x.n * x.k / lanes) + e;
    col = at / x.k;
    k = at % x.k;
  }
  static void c(const matrix_shape& x, unsigned l, unsigned e, unsigned& row,
                unsigned& col) {
    auto at = l * (x.m * x.n / lanes) + e;
    row = at / x.n;
    col = at % x.n;
  }
};

// The layout of mma fragments (PTX ISA, "Matrix Fragments for mma"). One rule
// holds for all shapes but m8n8k4 of f16. A register holds `per` elements that
// are neighbours in k.
struct mma_layout {
  static void a(const matrix_shape& x, unsigned l, unsigned e, unsigned& row,
                unsigned& k) {
    auto per = std::max(1u, 32 / element_bits(x.a));
    auto r = e / per;
    auto halves = x.m / 8; // registers with consecutive rows
    row = l / 4 + 8 * (r % halves);
    k = (l % 4) * per + e % per + 4 * per * (r / halves);
  }
  static void b(const matrix_shape& x, unsigned l, unsigned e, unsigned& col,
                unsigned& k) {
    auto per = std::max(1u, 32 / element_bits(x.b));
    col = l / 4;
    k = (l % 4) * per + e % per + 4 * per * (e / per);
  }
  static void c(const matrix_shape&, unsigned l, unsigned e, unsigned& row,
                unsigned& col) {
    row = l / 4 + 8 * (e / 2);
    col = (l % 4) * 2 + e % 2;
  }
};

template <class T>
struct matrices {
  T a[32 * 32 * 8]; // m x k
  T b[32 * 32 * 8]; // n x k
};

template <class L, class T, class F>
void gather(warp& w, const matrix_shape& x, matrices<T>& to, F read) {
  auto row = 0u;
  auto k = 0u;
  for (auto l = 0u; l < lanes; ++l) {
    for (auto e = 0u; e < x.m * x.k / lanes; ++e) {
      L::a(x, l, e, row, k);
      to.a[row * x.k + k] = read(x.a, element_at(w, slot_a, x.a, l, e));
    }
    for (auto e = 0u; e < x.n * x.k / lanes; ++e) {
      L::b(x, l, e, row, k);
      to.b[row * x.k + k] = read(x.b, element_at(w, slot_b, x.b, l, e));
    }
  }
}

/// Returns memory for the matrices of one warp at a time. It is not in
/// thread-local storage itself, which would be taken from the stack of every
/// thread of the process, even in libraries that ask for small stacks.
template <class T>
matrices<T>& matrices_of_thread() {
  static thread_local auto of = std::make_unique<matrices<T>>();
  return *of;
}

template <class L>
void multiply_reals(warp& w, const matrix_shape& x) {
  auto& of = matrices_of_thread<f64>();
  gather<L>(w, x, of, real_of);
  auto row = 0u;
  auto col = 0u;
  for (auto l = 0u; l < lanes; ++l)
    for (auto e = 0u; e < x.m * x.n / lanes; ++e) {
      L::c(x, l, e, row, col);
      auto sum = real_of(x.c, element_at(w, slot_c, x.c, l, e));
      auto a = &of.a[row * x.k];
      auto b = &of.b[col * x.k];
      if (x.a == element::f64) {
        for (auto k = 0u; k < x.k; ++k)
          sum = std::fma(a[k], b[k], sum);
      } else {
        // Double precision holds products of the short formats exactly.
        auto products = 0.0;
        for (auto k = 0u; k < x.k; ++k)
          products += a[k] * b[k];
        sum += products;
      }
      set_element(w, slot_d, x.d, l, e, bits_of(x.d, sum));
    }
}

template <class L>
void multiply_integers(warp& w, const matrix_shape& x) {
  auto& of = matrices_of_thread<s32>();
  gather<L>(w, x, of,
            [](element t, u64 bits) { return s32(integer_of(t, bits)); });
  auto row = 0u;
  auto col = 0u;
  for (auto l = 0u; l < lanes; ++l)
    for (auto e = 0u; e < x.m * x.n / lanes; ++e) {
      L::c(x, l, e, row, col);
      auto sum = s64{s32(element_at(w, slot_c, element::s32, l, e))};
      auto a = &of.a[row * x.k];
      auto b = &of.b[col * x.k];
      if (x.a == element::b1) {
        auto both = (x.flags & matrix_shape::and_popc) != 0;
        for (auto k = 0u; k < x.k; ++k)
          sum += both ? a[k] & b[k] : a[k] ^ b[k];
      } else {
        for (auto k = 0u; k < x.k; ++k)
          sum += a[k] * b[k];
      }
      if ((x.flags & matrix_shape::satfinite) != 0)
        sum = std::clamp<s64>(sum, -2147483648LL, 2147483647LL);
      set_element(w, slot_d, element::s32, l, e, u32(sum));
    }
}

template <class L>
const instr* multiply(warp& w, const instr* in) {
  auto x = matrix_shape::unpack(in->imm);
  if (x.c == element::s32)
    multiply_integers<L>(w, x);
  else
    multiply_reals<L>(w, x);
  return in + 1;
}

// -- memory -------------------------------------------------------------------

// Returns the place in memory of element e of lane l in a wmma fragment.
inline u64 place_in_memory(const matrix_shape& x, unsigned l, unsigned e,
                           u64 stride) {
  auto row = 0u;
  auto col = 0u;
  if (x.part == matrix_part::a)
    flat_layout::a(x, l, e, row, col);
  else if (x.part == matrix_part::b)
    flat_layout::b(x, l, e, col, row);
  else
    flat_layout::c(x, l, e, row, col);
  return (x.flags & matrix_shape::by_columns) != 0 ? col * stride + row
                                                   : row * stride + col;
}

// Moves a fragment between registers and memory: fa address, fb stride in
// elements.
template <bool Store>
const instr* wmma_memory(warp& w, const instr* in) {
  auto x = matrix_shape::unpack(in->imm);
  auto t = x.part == matrix_part::a   ? x.a
           : x.part == matrix_part::b ? x.b
                                      : x.c;
  auto bits = element_bits(t);
  auto own = x.elements() / lanes;
  auto held = bits >= 32 ? x.registers : x.registers * (32 / bits);
  auto address = reg<u64>(w, in, fa);
  auto stride = reg<u32>(w, in, fb);
  for (auto m = w.mask; m != 0; m &= m - 1) {
    auto l = u32(__builtin_ctz(m));
    for (auto e = 0u; e < (Store ? own : std::max(own, held)); ++e) {
      auto at = place_in_memory(x, l, e % own, stride[l]) * bits;
      auto bytes = std::max(1u, bits / 8);
      auto p = w.blk.resolve(w, l, address[l] + at / 8, bytes);
      if (p == nullptr)
        return bad_address(w, in, address[l] + at / 8, 1);
      auto value = u64{0};
      if constexpr (Store) {
        value = element_at(w, slot_d, t, l, e);
        std::memcpy(p, &value, bytes);
      } else {
        std::memcpy(&value, p, bytes);
        set_element(w, slot_d, t, l, e, value >> (at % 8));
      }
    }
  }
  return in + 1;
}

// Moves 8x8 matrices: fa is the address of a row of 16 bytes, imm the number of
// matrices.
template <bool Store, bool Transposed>
const instr* rows_of_8(warp& w, const instr* in) {
  auto address = reg<u64>(w, in, fa);
  for (auto j = 0u; j < u32(in->imm); ++j) {
    u16 m[8][8];
    auto regs = slot(w, slot_d + j);
    if constexpr (Store)
      for (auto l = 0u; l < lanes; ++l)
        for (auto i = 0u; i < 2; ++i)
          (Transposed ? m[l % 4 * 2 + i][l / 4] : m[l / 4][l % 4 * 2 + i]) =
              u16(regs[l] >> (16 * i));
    for (auto r = 0u; r < 8; ++r) {
      auto l = 8 * j + r;
      auto at = address[l];
      auto p = at % 16 == 0 ? w.blk.resolve(w, l, at, 16) : nullptr;
      if (p == nullptr)
        return bad_address(w, in, at, 16);
      if constexpr (Store)
        std::memcpy(p, m[r], 16);
      else
        std::memcpy(m[r], p, 16);
    }
    if constexpr (!Store)
      for (auto l = 0u; l < lanes; ++l) {
        auto i = l % 4 * 2;
        regs[l] = Transposed ? m[i][l / 4] | (u32{m[i + 1][l / 4]} << 16)
                             : m[l / 4][i] | (u32{m[l / 4][i + 1]} << 16);
      }
  }
  return in + 1;
}

inline const instr* transpose(warp& w, const instr* in) {
  auto regs = slot(w, slot_d);
  u16 m[8][8];
  for (auto l = 0u; l < lanes; ++l)
    for (auto i = 0u; i < 2; ++i)
      m[l / 4][l % 4 * 2 + i] = u16(regs[l] >> (16 * i));
  for (auto l = 0u; l < lanes; ++l)
    regs[l] = m[l % 4 * 2][l / 4] | (u32{m[l % 4 * 2 + 1][l / 4]} << 16);
  return in + 1;
}

// This is a table, and laid out as one.
// clang-format off
static const op_entry ops[] = {
    op_entry{"matrix.put.4", &put<u32>, ".4?4?4?4?4"},
    op_entry{"matrix.put.8", &put<u64>, ".8?8?8?8?8"},
    op_entry{"matrix.get.4", &get<u32>, "D?D?D?D?D?D"},
    op_entry{"matrix.get.8", &get<u64>, "H?H?H?H?H?H"},
    op_entry{"mma", &multiply<mma_layout>, ""},
    op_entry{"wmma.mma", &multiply<flat_layout>, ""},
    op_entry{"wmma.load", &wmma_memory<false>, ".84"},
    op_entry{"wmma.store", &wmma_memory<true>, ".84"},
    op_entry{"ldmatrix", &rows_of_8<false, false>, ".8"},
    op_entry{"ldmatrix.trans", &rows_of_8<false, true>, ".8"},
    op_entry{"stmatrix", &rows_of_8<true, false>, ".8"},
    op_entry{"stmatrix.trans", &rows_of_8<true, true>, ".8"},
    op_entry{"movmatrix.trans", &transpose, ""},
};
// clang-format on

#define VGPU_PART matrix_ops
#include "devices/cpu/exec/end.hpp"
