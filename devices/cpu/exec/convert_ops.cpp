// cvt: conversions between all scalar types, with rounding and saturation.
#include "devices/cpu/exec/begin.hpp"
#include "devices/cpu/exec/numbers.inl"

// -- from integers ------------------------------------------------------------

template <class D, class S>
D clamp_int(S x) {
  __extension__ using wide = __int128;
  constexpr auto low = wide{std::numeric_limits<D>::min()};
  constexpr auto high = wide{std::numeric_limits<D>::max()};
  auto v = wide{x};
  return D(v < low ? low : v > high ? high : v);
}

template <class D, class S>
const instr* int_to_int(warp& w, const instr* in) {
  auto a = reg<S>(w, in, fa);
  if ((in->flags & mod::sat) != 0)
    return fill<D>(w, in, [=](unsigned l) { return clamp_int<D>(a[l]); });
  return fill<D>(w, in, [=](unsigned l) { return D(a[l]); });
}

template <class D, class S>
const instr* int_to_float(warp& w, const instr* in) {
  auto a = reg<S>(w, in, fa);
  if ((in->flags & (mod::round_mask | mod::sat)) != 0) {
    auto d = reg<D>(w, in, fd);
    rounded(in->flags, [&] {
      each_lane(w.mask, [&](unsigned l) {
        d[l] = after(in->flags & mod::sat, D(a[l]));
      });
    });
    return in + 1;
  }
  return fill<D>(w, in, [=](unsigned l) { return D(a[l]); });
}

// Converts to double so that a later conversion to 16 bits rounds only once:
// bits that do not fit are noted in the lowest bit.
template <class S>
f64 odd_double(S x) {
  if constexpr (sizeof(S) < 8) {
    return f64(x);
  } else {
    auto negative = x < 0;
    auto size = negative ? u64(0) - u64(x) : u64(x);
    if (size >> 53 != 0)
      size = (size & ~u64{0xfff}) | ((size & 0xfff) != 0 ? u64{0x1000} : 0);
    return negative ? -f64(size) : f64(size);
  }
}

template <class H, class S>
const instr* int_to_half(warp& w, const instr* in) {
  auto a = reg<S>(w, in, fa);
  auto flags = in->flags;
  return fill<u16>(
      w, in, [=](unsigned l) { return finish<H>(odd_double(a[l]), flags); });
}

// -- from floating point ------------------------------------------------------

template <class T>
T to_integral(T x, u32 flags) {
  switch (flags & mod::round_mask) {
  case mod::rn:
    return std::nearbyint(x);
  case mod::rz:
    return std::trunc(x);
  case mod::rm:
    return std::floor(x);
  default:
    return std::ceil(x);
  }
}

// Converts as the PTX ISA says of cvt: NaN becomes 0, or the highest bit where
// f64 or a 64-bit integer takes part.
template <class D, class S>
D float_to_int_value(S x) {
  if (x != x)
    return sizeof(D) == 8 || sizeof(S) == 8
               ? D(std::make_unsigned_t<D>(1) << (sizeof(D) * 8 - 1))
               : D(0);
  constexpr auto low = S(std::numeric_limits<D>::min());
  // This is one above the highest value, which S holds exactly.
  constexpr auto end = S(std::make_unsigned_t<D>(1) << (sizeof(D) * 8 - 1)) *
                       (std::is_signed_v<D> ? S(1) : S(2));
  if (x < low)
    return std::numeric_limits<D>::min();
  if (x >= end)
    return std::numeric_limits<D>::max();
  return D(x);
}

template <class D, class S>
const instr* float_to_int(warp& w, const instr* in) {
  auto a = reg<S>(w, in, fa);
  auto flags = in->flags;
  if (flags == (mod::rz | mod::integral))
    return fill<D>(w, in,
                   [=](unsigned l) { return float_to_int_value<D>(a[l]); });
  return fill<D>(w, in, [=](unsigned l) {
    return float_to_int_value<D>(to_integral(before(flags, a[l]), flags));
  });
}

template <class D, class H>
const instr* half_to_int(warp& w, const instr* in) {
  auto a = reg<u16>(w, in, fa);
  auto flags = in->flags;
  return fill<D>(w, in, [=](unsigned l) {
    return float_to_int_value<D>(to_integral(f32(H::load(a[l])), flags));
  });
}

template <class D, class S>
const instr* float_to_float(warp& w, const instr* in) {
  auto a = reg<S>(w, in, fa);
  auto d = reg<D>(w, in, fd);
  auto flags = in->flags;
  if (flags == 0)
    return fill<D>(w, in, [=](unsigned l) { return canonical(D(a[l])); });
  auto integral = (flags & mod::integral) != 0;
  rounded(flags, [&] {
    each_lane(w.mask, [&](unsigned l) {
      auto x = before(flags, a[l]);
      d[l] = after(flags, D(integral ? to_integral(x, flags) : x));
    });
  });
  return in + 1;
}

template <class D, class H>
const instr* half_to_float(warp& w, const instr* in) {
  auto a = reg<u16>(w, in, fa);
  auto flags = in->flags;
  return fill<D>(w, in, [=](unsigned l) {
    return after(flags & mod::sat, D(H::load(a[l])));
  });
}

template <class H, class S>
const instr* float_to_half(warp& w, const instr* in) {
  auto a = reg<S>(w, in, fa);
  auto flags = in->flags;
  return fill<u16>(w, in, [=](unsigned l) {
    return finish<H>(f64(before(flags, a[l])), flags);
  });
}

template <class D, class S>
const instr* half_to_half(warp& w, const instr* in) {
  auto a = reg<u16>(w, in, fa);
  auto flags = in->flags;
  return fill<u16>(w, in, [=](unsigned l) {
    auto x = S::load(a[l]);
    if ((flags & mod::integral) != 0)
      x = to_integral(x, flags);
    return finish<D>(x, flags);
  });
}

// Executes cvt.rn.f16x2.f32 d, a, b, where a goes to the upper half.
template <class H>
const instr* floats_to_pair(warp& w, const instr* in) {
  auto a = reg<f32>(w, in, fa);
  auto b = reg<f32>(w, in, fb);
  auto flags = in->flags;
  return fill<u32>(w, in, [=](unsigned l) {
    return (u32{finish<H>(f64(a[l]), flags)} << 16) |
           finish<H>(f64(b[l]), flags);
  });
}

#define CVT(d, s, with, ...)                                                   \
  op_entry {                                                                   \
    "cvt." d "." s, &with<__VA_ARGS__>,
#define CVT_INT_FROM(s, S)                                                     \
  op_entry{"cvt.u8." s, &int_to_int<u8, S>, sig<u8, S>},                       \
      op_entry{"cvt.s8." s, &int_to_int<s8, S>, sig<s8, S>},                   \
      op_entry{"cvt.u16." s, &int_to_int<u16, S>, sig<u16, S>},                \
      op_entry{"cvt.s16." s, &int_to_int<s16, S>, sig<s16, S>},                \
      op_entry{"cvt.u32." s, &int_to_int<u32, S>, sig<u32, S>},                \
      op_entry{"cvt.s32." s, &int_to_int<s32, S>, sig<s32, S>},                \
      op_entry{"cvt.u64." s, &int_to_int<u64, S>, sig<u64, S>},                \
      op_entry{"cvt.s64." s, &int_to_int<s64, S>, sig<s64, S>},                \
      op_entry{"cvt.f16." s, &int_to_half<half, S>, sig<u16, S>},              \
      op_entry{"cvt.bf16." s, &int_to_half<bfloat, S>, sig<u16, S>},           \
      op_entry{"cvt.f32." s, &int_to_float<f32, S>, sig<f32, S>},              \
      op_entry{"cvt.f64." s, &int_to_float<f64, S>, sig<f64, S>},
#define CVT_TO_INTS(s, with, S, R)                                             \
  op_entry{"cvt.u8." s, &with<u8, S>, sig<u8, R>},                             \
      op_entry{"cvt.s8." s, &with<s8, S>, sig<s8, R>},                         \
      op_entry{"cvt.u16." s, &with<u16, S>, sig<u16, R>},                      \
      op_entry{"cvt.s16." s, &with<s16, S>, sig<s16, R>},                      \
      op_entry{"cvt.u32." s, &with<u32, S>, sig<u32, R>},                      \
      op_entry{"cvt.s32." s, &with<s32, S>, sig<s32, R>},                      \
      op_entry{"cvt.u64." s, &with<u64, S>, sig<u64, R>},                      \
      op_entry{"cvt.s64." s, &with<s64, S>, sig<s64, R>},

#undef CVT

// This is a table, and laid out as one.
// clang-format off
static const op_entry ops[] = {
  CVT_INT_FROM("u8", u8)
  CVT_INT_FROM("s8", s8)
  CVT_INT_FROM("u16", u16)
  CVT_INT_FROM("s16", s16)
  CVT_INT_FROM("u32", u32)
  CVT_INT_FROM("s32", s32)
  CVT_INT_FROM("u64", u64)
  CVT_INT_FROM("s64", s64)
  CVT_TO_INTS("f32", float_to_int, f32, f32)
  CVT_TO_INTS("f64", float_to_int, f64, f64)
  CVT_TO_INTS("f16", half_to_int, half, u16)
  CVT_TO_INTS("bf16", half_to_int, bfloat, u16)
  op_entry{"cvt.f32.f32", &float_to_float<f32, f32>, sig<f32, f32>},
  op_entry{"cvt.f64.f64", &float_to_float<f64, f64>, sig<f64, f64>},
  op_entry{"cvt.f32.f64", &float_to_float<f32, f64>, sig<f32, f64>},
  op_entry{"cvt.f64.f32", &float_to_float<f64, f32>, sig<f64, f32>},
  op_entry{"cvt.f32.f16", &half_to_float<f32, half>, sig<f32, u16>},
  op_entry{"cvt.f64.f16", &half_to_float<f64, half>, sig<f64, u16>},
  op_entry{"cvt.f32.bf16", &half_to_float<f32, bfloat>, sig<f32, u16>},
  op_entry{"cvt.f64.bf16", &half_to_float<f64, bfloat>, sig<f64, u16>},
  op_entry{"cvt.f16.f32", &float_to_half<half, f32>, sig<u16, f32>},
  op_entry{"cvt.f16.f64", &float_to_half<half, f64>, sig<u16, f64>},
  op_entry{"cvt.bf16.f32", &float_to_half<bfloat, f32>, sig<u16, f32>},
  op_entry{"cvt.bf16.f64", &float_to_half<bfloat, f64>, sig<u16, f64>},
  op_entry{"cvt.f16.f16", &half_to_half<half, half>, sig<u16, u16>},
  op_entry{"cvt.bf16.bf16", &half_to_half<bfloat, bfloat>, sig<u16, u16>},
  op_entry{"cvt.f16.bf16", &half_to_half<half, bfloat>, sig<u16, u16>},
  op_entry{"cvt.bf16.f16", &half_to_half<bfloat, half>, sig<u16, u16>},
  op_entry{"cvt.f16x2.f32", &floats_to_pair<half>, "D44"},
  op_entry{"cvt.bf16x2.f32", &floats_to_pair<bfloat>, "D44"},
};
// clang-format on

#define VGPU_PART convert_ops
#include "devices/cpu/exec/end.hpp"
