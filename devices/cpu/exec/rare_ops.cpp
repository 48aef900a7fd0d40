// Instructions that are too rare to be compiled for every processor level.
#include "devices/cpu/exec/begin.hpp"
#include "devices/cpu/exec/numbers.inl"
#include "devices/cpu/exec/spaces.inl"
#include "devices/cpu/exec/whole.inl"

// -- conversions --------------------------------------------------------------

// Rounds to the 19 bits that matrix instructions read. mod::integral stands for
// .rna: to the nearest, ties away from zero.
inline u32 to_tf32(f32 x, u32 flags) {
  auto bits = std::bit_cast<u32>(x);
  if (x != x)
    return 0x7fffffffu;
  if ((flags & mod::relu) != 0 && (bits >> 31) != 0)
    return 0;
  if (std::isinf(x))
    return (flags & mod::sat) != 0 ? (bits & 0x80000000u) | 0x7f7fe000u : bits;
  if ((flags & mod::integral) != 0)
    bits += 0x1000;
  else if ((flags & mod::round_mask) == mod::rn)
    bits += 0xfff + ((bits >> 13) & 1);
  bits &= ~0x1fffu;
  if ((flags & mod::sat) != 0 && (bits & 0x7f800000u) == 0x7f800000u)
    bits = (bits & 0x80000000u) | 0x7f7fe000u;
  return bits;
}

inline const instr* float_to_tf32(warp& w, const instr* in) {
  auto a = reg<f32>(w, in, fa);
  auto flags = in->flags;
  return fill<u32>(w, in, [=](unsigned l) { return to_tf32(a[l], flags); });
}

template <auto Store>
u8 to_byte(f64 x, u32 flags) {
  return Store((flags & mod::relu) != 0 && x < 0 ? 0 : x);
}

// Executes cvt.e4m3x2.f32 d, a, b, where a goes to the upper byte.
template <auto Store>
const instr* floats_to_bytes(warp& w, const instr* in) {
  auto a = reg<f32>(w, in, fa);
  auto b = reg<f32>(w, in, fb);
  auto flags = in->flags;
  return fill<u16>(w, in, [=](unsigned l) {
    return u16((u32{to_byte<Store>(f64(a[l]), flags)} << 8) |
               to_byte<Store>(f64(b[l]), flags));
  });
}

template <auto Store>
const instr* halves_to_bytes(warp& w, const instr* in) {
  auto a = reg<u32>(w, in, fa);
  auto flags = in->flags;
  return fill<u16>(w, in, [=](unsigned l) {
    return u16((u32{to_byte<Store>(half::load(u16(a[l] >> 16)), flags)} << 8) |
               to_byte<Store>(half::load(u16(a[l])), flags));
  });
}

template <auto Load>
const instr* bytes_to_halves(warp& w, const instr* in) {
  auto a = reg<u16>(w, in, fa);
  auto flags = in->flags;
  return fill<u32>(w, in, [=](unsigned l) {
    return (u32{finish<half>(Load(u8(a[l] >> 8)), flags)} << 16) |
           finish<half>(Load(u8(a[l])), flags);
  });
}

// Executes cvt.pack.sat: two narrowed integers, and above them the rest of c.
// imm is the width; flags say whether the narrow ones and the sources are
// signed.
inline const instr* pack_saturated(warp& w, const instr* in) {
  auto a = reg<u32>(w, in, fa);
  auto b = reg<u32>(w, in, fb);
  auto c = in->o[fc] >= 0 ? reg<u32>(w, in, fc) : nullptr;
  auto width = u32(in->imm);
  auto to_signed = (in->flags & 1) != 0;
  auto from_signed = (in->flags & 2) != 0;
  auto low = to_signed ? -(s64{1} << (width - 1)) : 0;
  auto high = (s64{1} << (to_signed ? width - 1 : width)) - 1;
  auto narrow = [=](u32 x) {
    auto v = from_signed ? s64{s32(x)} : s64{x};
    return u32(std::clamp(v, low, high)) & ((1u << width) - 1);
  };
  return fill<u32>(w, in, [=](unsigned l) {
    auto above = c != nullptr ? u32(u64{c[l]} << (2 * width)) : 0u;
    return above | (narrow(a[l]) << width) | narrow(b[l]);
  });
}

// -- 16-bit integers in pairs, and the like -----------------------------------

template <class T, auto F>
u32 in_pairs(u32 a, u32 b) {
  auto low = u32(u16(F(T(a), T(b))));
  auto high = u32(u16(F(T(a >> 16), T(b >> 16))));
  return low | (high << 16);
}

// Executes rcp.approx.ftz.f64 and the like, whose result has a zero lower half.
template <auto F>
f64 upper_half(f64 a) {
  auto x = std::fpclassify(a) == FP_SUBNORMAL ? std::copysign(0.0, a) : a;
  auto y = F(x);
  if (y != y)
    return y;
  return std::bit_cast<f64>(std::bit_cast<u64>(y) & 0xffffffff00000000u);
}

inline const instr* logic_with_predicate(warp& w, const instr* in) {
  // Executes lop3.or.b32 d|p, a, b, c, table, q: the predicate is d != 0,
  // combined with q.
  auto d = reg<u32>(w, in, fa);
  auto out = lane_mask{0};
  for (auto l = 0u; l < lanes; ++l)
    out |= d[l] != 0 ? lane_bits[l] : 0u;
  auto q = pred(w, in, fb);
  set_pred(w, in, fd, in->imm != 0 ? out & q : out | q);
  return in + 1;
}

// -- 128 bits -----------------------------------------------------------------

struct alignas(16) wide {
  u64 low, high;
  friend bool operator==(const wide&, const wide&) = default;
};

inline wide* wides(warp& w, const instr* in, field f) {
  return reinterpret_cast<wide*>(w.regs + in->o[f]);
}

inline const instr* move_wide(warp& w, const instr* in) {
  auto a = wides(w, in, fa);
  auto d = wides(w, in, fd);
  each_lane(w.mask, [&](unsigned l) { d[l] = a[l]; });
  return in + 1;
}

inline const instr* pack_wide(warp& w, const instr* in) {
  auto a = reg<u64>(w, in, fa);
  auto b = reg<u64>(w, in, fb);
  auto d = wides(w, in, fd);
  each_lane(w.mask, [&](unsigned l) { d[l] = {a[l], b[l]}; });
  return in + 1;
}

inline const instr* unpack_wide(warp& w, const instr* in) {
  auto a = wides(w, in, fa);
  each_lane(w.mask, [&](unsigned l) {
    auto x = a[l];
    if (in->o[fd] >= 0)
      reg<u64>(w, in, fd)[l] = x.low;
    if (in->o[fb] >= 0)
      reg<u64>(w, in, fb)[l] = x.high;
  });
  return in + 1;
}

template <class F>
const instr* each_wide(warp& w, const instr* in, F f) {
  auto a = reg<u64>(w, in, fa);
  for (auto m = w.mask; m != 0; m &= m - 1) {
    auto l = u32(__builtin_ctz(m));
    auto p = a[l] % 16 == 0 ? w.blk.resolve(w, l, a[l], 16) : nullptr;
    if (p == nullptr)
      return bad_address(w, in, a[l], 16);
    f(l, p);
  }
  return in + 1;
}

inline const instr* load_wide(warp& w, const instr* in) {
  return each_wide(w, in, [&](unsigned l, std::byte* p) {
    fetch_whole<16>(reinterpret_cast<std::byte*>(&wides(w, in, fd)[l]), p);
  });
}

inline const instr* store_wide(warp& w, const instr* in) {
  return each_wide(w, in, [&](unsigned l, std::byte* p) {
    put_whole<16>(p, reinterpret_cast<std::byte*>(&wides(w, in, fb)[l]));
  });
}

// All of them share one lock. Loads and stores see the value before or after.
template <bool Swap>
const instr* atomic_wide(warp& w, const instr* in) {
  static std::mutex one_at_a_time;
  auto lock = std::lock_guard{one_at_a_time};
  w.may_spin();
  return each_wide(w, in, [&](unsigned l, std::byte* p) {
    auto old = peek<wide>(p);
    auto b = wides(w, in, fb)[l];
    auto next = !Swap ? b : old == b ? wides(w, in, fc)[l] : old;
    put_whole<16>(p, reinterpret_cast<std::byte*>(&next));
    if (in->o[fd] >= 0)
      wides(w, in, fd)[l] = old;
  });
}

// This is a table, and laid out as one.
// clang-format off
static const op_entry ops[] = {
    op_entry{"cvt.tf32.f32", &float_to_tf32, "D4"},
    op_entry{"cvt.e4m3x2.f32", &floats_to_bytes<&double_to_e4m3>, "B44"},
    op_entry{"cvt.e5m2x2.f32", &floats_to_bytes<&double_to_e5m2>, "B44"},
    op_entry{"cvt.e4m3x2.f16x2", &halves_to_bytes<&double_to_e4m3>, "B4"},
    op_entry{"cvt.e5m2x2.f16x2", &halves_to_bytes<&double_to_e5m2>, "B4"},
    op_entry{"cvt.f16x2.e4m3x2", &bytes_to_halves<&e4m3_to_double>, "D2"},
    op_entry{"cvt.f16x2.e5m2x2", &bytes_to_halves<&e5m2_to_double>, "D2"},
    op_entry{"cvt.pack", &pack_saturated, "D44?4"},
    OP2("add.u16x2", u32, u32, u32,
        (in_pairs<u16, [](u16 x, u16 y) { return x + y; }>(
            a, b))) OP2("add.s16x2", u32, u32, u32,
                        (in_pairs<u16, [](u16 x, u16 y) { return x + y; }>(a,
                                                                           b)))
        OP2("min.u16x2", u32, u32, u32,
            (in_pairs<u16, [](u16 x, u16 y) { return x < y ? x : y; }>(
                a, b))) OP2("max.u16x2", u32, u32, u32,
                            (in_pairs<u16, [](u16 x,
                                              u16 y) { return x < y ? y : x; }>(
                                a, b)))
            OP2("min.s16x2", u32, u32, u32,
                (in_pairs<s16, [](s16 x, s16 y) { return x < y ? x : y; }>(a,
                                                                           b)))
                OP2("max.s16x2", u32, u32, u32,
                    (in_pairs<s16, [](s16 x, s16 y) { return x < y ? y : x; }>(
                        a, b))) OP2("min.relu.s16x2", u32, u32, u32,
                                    (in_pairs<s16,
                                              [](s16 x, s16 y) {
                                                return std::max<s16>(
                                                    0, x < y ? x : y);
                                              }>(a, b)))
                    OP2("max.relu.s16x2", u32, u32, u32,
                        (in_pairs<s16,
                                  [](s16 x, s16 y) {
                                    return std::max<s16>(0, x < y ? y : x);
                                  }>(a, b))) OP2("min.relu.s32", s32, s32, s32,
                                                 std::max(0, std::min(a, b)))
                        OP2("max.relu.s32", s32, s32, s32,
                            std::max(0, std::max(a, b)))
                            OP3("mad24.hi.sat.s32", s32, u32, u32, s32,
                                std::clamp<s64>(
                                    s64{s32(u32((s64{s32(a << 8) >> 8} *
                                                 s64{s32(b << 8) >> 8}) >>
                                                16))} +
                                        c,
                                    -2147483648LL, 2147483647LL))
                                OP1("rcp.approx.ftz.f64", f64, f64,
                                    (upper_half<[](f64 x) { return 1 / x; }>(
                                        a))) OP1("rsqrt.approx.ftz.f64", f64,
                                                 f64, (upper_half<[](f64 x) {
                                                   return 1 / std::sqrt(x);
                                                 }>(a))) op_entry{
                                    "lop3.pred", &logic_with_predicate, "P4p"},
    op_entry{"mov.b128", &move_wide, "Q@"},
    op_entry{"pack2.b128", &pack_wide, "Q88"},
    op_entry{"unpack2.b128", &unpack_wide, "?H@?H"},
    op_entry{"ld.b128", &load_wide, "Q8"},
    op_entry{"st.b128", &store_wide, ".8@"},
    op_entry{"atom.exch.b128", &atomic_wide<false>, "?Q8@"},
    op_entry{"atom.cas.b128", &atomic_wide<true>, "?Q8@@"},
};
// clang-format on

#define VGPU_PART rare_ops
#include "devices/cpu/exec/end.hpp"
