// Floating-point arithmetic.
#include "devices/cpu/exec/begin.hpp"
#include "devices/cpu/exec/numbers.inl"

template <class T, auto F>
[[gnu::noinline]] const instr* float1_slow(warp& w, const instr* in) {
  auto a = reg<T>(w, in, fa);
  auto d = reg<T>(w, in, fd);
  auto flags = in->flags;
  rounded(flags, [&] {
    each_lane(w.mask,
              [&](unsigned l) { d[l] = after(flags, F(before(flags, a[l]))); });
  });
  return in + 1;
}

template <class T, auto F>
const instr* float1(warp& w, const instr* in) {
  auto flags = in->flags & ~mod::approx;
  if ((flags & ~mod::ftz) != 0)
    return float1_slow<T, F>(w, in);
  auto a = reg<T>(w, in, fa);
  if (flags != 0)
    return fill<T>(
        w, in, [=](unsigned l) { return canonical(flush(F(flush(a[l])))); });
  return fill<T>(w, in, [=](unsigned l) { return canonical(F(a[l])); });
}

template <class T, auto F>
[[gnu::noinline]] const instr* float2_slow(warp& w, const instr* in) {
  auto a = reg<T>(w, in, fa);
  auto b = reg<T>(w, in, fb);
  auto d = reg<T>(w, in, fd);
  auto flags = in->flags;
  rounded(flags, [&] {
    each_lane(w.mask, [&](unsigned l) {
      d[l] = after(flags, F(before(flags, a[l]), before(flags, b[l])));
    });
  });
  return in + 1;
}

template <class T, auto F>
const instr* float2(warp& w, const instr* in) {
  auto flags = in->flags & ~mod::approx;
  if ((flags & ~mod::ftz) != 0)
    return float2_slow<T, F>(w, in);
  auto a = reg<T>(w, in, fa);
  auto b = reg<T>(w, in, fb);
  if (flags != 0)
    return fill<T>(w, in, [=](unsigned l) {
      return canonical(flush(F(flush(a[l]), flush(b[l]))));
    });
  return fill<T>(w, in, [=](unsigned l) { return canonical(F(a[l], b[l])); });
}

template <class T>
[[gnu::noinline]] const instr* fma_slow(warp& w, const instr* in) {
  auto a = reg<T>(w, in, fa);
  auto b = reg<T>(w, in, fb);
  auto c = reg<T>(w, in, fc);
  auto d = reg<T>(w, in, fd);
  auto flags = in->flags;
  rounded(flags, [&] {
    each_lane(w.mask, [&](unsigned l) {
      auto x = std::fma(before(flags, a[l]), before(flags, b[l]),
                        before(flags, c[l]));
      x = (flags & mod::relu) != 0 && x < T(0) ? T(0) : x;
      d[l] = after(flags, x);
    });
  });
  return in + 1;
}

template <class T>
const instr* fused(warp& w, const instr* in) {
  if ((in->flags & ~mod::ftz) != 0)
    return fma_slow<T>(w, in);
  auto a = reg<T>(w, in, fa);
  auto b = reg<T>(w, in, fb);
  auto c = reg<T>(w, in, fc);
  if (in->flags != 0)
    return fill<T>(w, in, [=](unsigned l) {
      return canonical(flush(std::fma(flush(a[l]), flush(b[l]), flush(c[l]))));
    });
  return fill<T>(
      w, in, [=](unsigned l) { return canonical(std::fma(a[l], b[l], c[l])); });
}

template <class T, bool Max>
const instr* extremum(warp& w, const instr* in) {
  auto a = reg<T>(w, in, fa);
  auto b = reg<T>(w, in, fb);
  auto flags = in->flags;
  return fill<T>(w, in, [=](unsigned l) {
    auto x = before(flags, a[l]);
    auto y = before(flags, b[l]);
    auto r = Max ? maximum(x, y) : minimum(x, y);
    if ((flags & mod::nan) != 0 && (x != x || y != y))
      r = std::numeric_limits<T>::quiet_NaN();
    return canonical(r);
  });
}

template <class T, auto F>
const instr* compare_float(warp& w, const instr* in) {
  auto a = reg<T>(w, in, fa);
  auto b = reg<T>(w, in, fb);
  auto out = lane_mask{0};
  if ((in->flags & mod::ftz) != 0) {
    for (auto l = 0u; l < lanes; ++l)
      out |= F(flush(a[l]), flush(b[l])) ? lane_bits[l] : 0u;
  } else {
    for (auto l = 0u; l < lanes; ++l)
      out |= F(a[l], b[l]) ? lane_bits[l] : 0u;
  }
  set_pred(w, in, fd, out);
  return in + 1;
}

// Executes copysign d, a, b, which takes the sign of a and the rest of b.
template <class T, class U>
T sign_from(T a, T b) {
  constexpr auto sign = U{1} << (sizeof(U) * 8 - 1);
  return std::bit_cast<T>(
      U((std::bit_cast<U>(a) & sign) | (std::bit_cast<U>(b) & ~sign)));
}

template <class T, class U>
const instr* classify(warp& w, const instr* in) {
  auto a = reg<T>(w, in, fa);
  auto out = lane_mask{0};
  for (auto l = 0u; l < lanes; ++l) {
    auto kind = std::fpclassify(a[l]);
    auto yes = false;
    switch (in->imm) {
    case 0:
      yes = kind != FP_NAN && kind != FP_INFINITE;
      break;
    case 1:
      yes = kind == FP_INFINITE;
      break;
    case 2:
      yes = kind != FP_NAN;
      break;
    case 3:
      yes = kind == FP_NAN;
      break;
    case 4:
      yes = kind == FP_NORMAL;
      break;
    default:
      yes = kind == FP_SUBNORMAL;
      break;
    }
    out |= yes ? lane_bits[l] : 0u;
  }
  set_pred(w, in, fd, out);
  return in + 1;
}

// Applies F to each 16-bit part of operands of type T, in double precision.
// That holds products and sums of these formats so exactly that they are
// rounded only once.
template <class T, class H, unsigned N, auto F>
const instr* halves(warp& w, const instr* in) {
  const T* s[3] = {};
  constexpr field from[] = {fa, fb, fc};
  for (auto i = 0u; i < N; ++i)
    s[i] = reg<T>(w, in, from[i]);
  auto flags = in->flags;
  auto flushes = (flags & mod::ftz) != 0;
  auto part = [&](unsigned i, unsigned l, unsigned k) {
    auto x = u16(u32{s[i][l]} >> (16 * k));
    return H::load(flushes ? flush_half<H>(x) : x);
  };
  auto d = reg<T>(w, in, fd);
  each_lane(w.mask, [&](unsigned l) {
    auto out = u32{0};
    for (auto k = 0u; k < sizeof(T) / 2; ++k) {
      auto x = 0.0;
      if constexpr (N == 1)
        x = F(part(0, l, k), flags);
      else if constexpr (N == 2)
        x = F(part(0, l, k), part(1, l, k), flags);
      else
        x = F(part(0, l, k), part(1, l, k), part(2, l, k), flags);
      auto bits = finish<H>(x, flags);
      out |= u32{flushes ? flush_half<H>(bits) : bits} << (16 * k);
    }
    d[l] = T(out);
  });
  return in + 1;
}

template <class H, auto F>
const instr* compare_half(warp& w, const instr* in) {
  auto a = reg<u16>(w, in, fa);
  auto b = reg<u16>(w, in, fb);
  auto out = lane_mask{0};
  for (auto l = 0u; l < lanes; ++l)
    out |= F(H::load(a[l]), H::load(b[l])) ? lane_bits[l] : 0u;
  set_pred(w, in, fd, out);
  return in + 1;
}

template <bool Max>
f64 half_extremum(f64 a, f64 b, u32 flags) {
  if ((flags & mod::nan) != 0 && (a != a || b != b))
    return std::nan("");
  return Max ? maximum(a, b) : minimum(a, b);
}

// This is a table, and laid out as one.
// clang-format off
#define FLOAT_OPS(t, T, U)                                                     \
  op_entry{"add." #t, &float2<T, [](T a, T b) { return a + b; }>,              \
           sig<T, T, T>},                                                      \
  op_entry{"sub." #t, &float2<T, [](T a, T b) { return a - b; }>,              \
           sig<T, T, T>},                                                      \
  op_entry{"mul." #t, &float2<T, [](T a, T b) { return a * b; }>,              \
           sig<T, T, T>},                                                      \
  op_entry{"div." #t, &float2<T, [](T a, T b) { return a / b; }>,              \
           sig<T, T, T>},                                                      \
  op_entry{"fma." #t, &fused<T>, sig<T, T, T, T>},                             \
  op_entry{"min." #t, &extremum<T, false>, sig<T, T, T>},                      \
  op_entry{"max." #t, &extremum<T, true>, sig<T, T, T>},                       \
  op_entry{"sqrt." #t, &float1<T, [](T a) { return std::sqrt(a); }>,           \
           sig<T, T>},                                                         \
  op_entry{"rcp." #t, &float1<T, [](T a) { return T(1) / a; }>, sig<T, T>},    \
  op_entry{"rsqrt." #t,                                                        \
           &float1<T, [](T a) { return T(1.0 / std::sqrt(f64(a))); }>,         \
           sig<T, T>},                                                         \
  OP1("neg." #t, U, U, a ^ (U{1} << (sizeof(U) * 8 - 1)))                      \
  OP1("abs." #t, U, U, a & ~(U{1} << (sizeof(U) * 8 - 1)))                     \
  OP2("copysign." #t, T, T, T, (sign_from<T, U>(a, b)))                        \
  op_entry{"testp." #t, &classify<T, U>,                                       \
           sizeof(T) == 4 ? "P4" : "P8"},                                      \
  FLOAT_CMPS(t, T, compare_float, T, sizeof(T) == 4 ? "P44" : "P88")

#define FLOAT_CMPS(t, T, with, V, s)                                           \
  op_entry{"setp.eq." #t, &with<T, [](V a, V b) { return a == b; }>, s},       \
  op_entry{"setp.ne." #t, &with<T, [](V a, V b) { return (a < b || a > b); }>,   \
           s},                                                                 \
  op_entry{"setp.lt." #t, &with<T, [](V a, V b) { return a < b; }>, s},        \
  op_entry{"setp.le." #t, &with<T, [](V a, V b) { return a <= b; }>, s},       \
  op_entry{"setp.gt." #t, &with<T, [](V a, V b) { return (a > b); }>, s},        \
  op_entry{"setp.ge." #t, &with<T, [](V a, V b) { return (a >= b); }>, s},       \
  op_entry{"setp.equ." #t,                                                     \
           &with<T, [](V a, V b) { return !(a < b || a > b); }>, s},           \
  op_entry{"setp.neu." #t, &with<T, [](V a, V b) { return !(a == b); }>, s},   \
  op_entry{"setp.ltu." #t, &with<T, [](V a, V b) { return !(a >= b); }>, s},   \
  op_entry{"setp.leu." #t, &with<T, [](V a, V b) { return !(a > b); }>, s},    \
  op_entry{"setp.gtu." #t, &with<T, [](V a, V b) { return !(a <= b); }>, s},   \
  op_entry{"setp.geu." #t, &with<T, [](V a, V b) { return !(a < b); }>, s},    \
  op_entry{"setp.num." #t,                                                     \
           &with<T, [](V a, V b) { return a == a && b == b; }>, s},            \
  op_entry{"setp.nan." #t,                                                     \
           &with<T, [](V a, V b) { return a != a || b != b; }>, s},

#define HALF_OPS(t, T, H, N)                                                   \
  op_entry{"add." t,                                                           \
           &halves<T, H, 2, [](f64 a, f64 b, u32) { return odd_sum(a, b); }>,  \
           sig<T, T, T>},                                                      \
  op_entry{"sub." t,                                                           \
           &halves<T, H, 2, [](f64 a, f64 b, u32) { return odd_sum(a, -b); }>, \
           sig<T, T, T>},                                                      \
  op_entry{"mul." t,                                                           \
           &halves<T, H, 2, [](f64 a, f64 b, u32) { return a * b; }>,          \
           sig<T, T, T>},                                                      \
  op_entry{"fma." t,                                                           \
           &halves<T, H, 3,                                                    \
                   [](f64 a, f64 b, f64 c, u32) {                              \
                     return odd_sum(a * b, c);                                 \
                   }>,                                                         \
           sig<T, T, T, T>},                                                   \
  op_entry{"min." t, &halves<T, H, 2, &half_extremum<false>>, sig<T, T, T>},   \
  op_entry{"max." t, &halves<T, H, 2, &half_extremum<true>>, sig<T, T, T>},    \
  op_entry{"ex2." t, &halves<T, H, 1, [](f64 a, u32) { return std::exp2(a); }>,\
           sig<T, T>},                                                         \
  op_entry{"tanh." t,                                                          \
           &halves<T, H, 1, [](f64 a, u32) { return std::tanh(a); }>,          \
           sig<T, T>},                                                         \
  OP1("neg." t, T, T, a ^ T(0x80008000u))                                      \
  OP1("abs." t, T, T, a & T(0x7fff7fffu))

static const op_entry ops[] = {
  FLOAT_OPS(f32, f32, u32)
  FLOAT_OPS(f64, f64, u64)
  HALF_OPS("f16", u16, half, 1)
  HALF_OPS("f16x2", u32, half, 2)
  HALF_OPS("bf16", u16, bfloat, 1)
  HALF_OPS("bf16x2", u32, bfloat, 2)
  FLOAT_CMPS(f16, half, compare_half, f64, "P22")
  FLOAT_CMPS(bf16, bfloat, compare_half, f64, "P22")
  op_entry{"ex2.f32", &float1<f32, [](f32 a) { return std::exp2(a); }>,
           sig<f32, f32>},
  op_entry{"lg2.f32", &float1<f32, [](f32 a) { return std::log2(a); }>,
           sig<f32, f32>},
  op_entry{"sin.f32", &float1<f32, [](f32 a) { return std::sin(a); }>,
           sig<f32, f32>},
  op_entry{"cos.f32", &float1<f32, [](f32 a) { return std::cos(a); }>,
           sig<f32, f32>},
  op_entry{"tanh.f32", &float1<f32, [](f32 a) { return std::tanh(a); }>,
           sig<f32, f32>},
};
// clang-format on

#define VGPU_PART float_ops
#include "devices/cpu/exec/end.hpp"
