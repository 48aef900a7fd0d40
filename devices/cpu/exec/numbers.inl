// Values of the floating-point formats: NaN, subnormals, rounding.

// PTX has a single NaN for f32, whatever payloads the operands had.
[[gnu::always_inline]] inline f32 canonical(f32 x) {
  return x == x ? x : std::bit_cast<f32>(0x7fffffffu);
}
[[gnu::always_inline]] inline f64 canonical(f64 x) { return x; }

inline f32 flush(f32 x) {
  auto bits = std::bit_cast<u32>(x);
  return (bits & 0x7f800000u) == 0 ? std::bit_cast<f32>(bits & 0x80000000u)
                                   : x;
}
inline f64 flush(f64 x) { return x; }

template <class T>
T saturate(T x) {
  return x > T(0) ? (x < T(1) ? x : T(1)) : T(0);
}

// Calls f while the processor rounds as the modifiers say.
template <class F>
void rounded(u32 flags, F f) {
  static constexpr u32 control[] = {_MM_ROUND_NEAREST, _MM_ROUND_TOWARD_ZERO,
                                    _MM_ROUND_DOWN, _MM_ROUND_UP};
  auto old = _mm_getcsr();
  _mm_setcsr((old & ~u32(_MM_ROUND_MASK)) | control[flags & mod::round_mask]);
  asm volatile("" ::: "memory");
  f();
  asm volatile("" ::: "memory");
  _mm_setcsr(old);
}

template <class T>
T before(u32 flags, T x) {
  return (flags & mod::ftz) != 0 ? flush(x) : x;
}

template <class T>
T after(u32 flags, T x) {
  x = before(flags, x);
  return (flags & mod::sat) != 0 ? saturate(x) : canonical(x);
}

// min and max prefer numbers to NaN, and order -0 before +0.
template <class T>
T minimum(T a, T b) {
  if (a != a)
    return b;
  if (b != b)
    return a;
  return a < b || (a == b && std::signbit(a)) ? a : b;
}
template <class T>
T maximum(T a, T b) {
  if (a != a)
    return b;
  if (b != b)
    return a;
  return a > b || (a == b && !std::signbit(a)) ? a : b;
}

// -- 16-bit formats -----------------------------------------------------------

struct half {
  static constexpr u16 exponent = 0x7c00;
  static f64 load(u16 x) { return half_to_double(x); }
  static u16 store(f64 x, rounding how) { return double_to_half(x, how); }
};
struct bfloat {
  static constexpr u16 exponent = 0x7f80;
  static f64 load(u16 x) { return bfloat_to_double(x); }
  static u16 store(f64 x, rounding how) { return double_to_bfloat(x, how); }
};

inline rounding rounding_of(u32 flags) {
  return rounding(flags & mod::round_mask);
}

// Returns a sum rounded to odd where it is inexact. Rounding it again to a
// shorter format then gives the same as rounding the exact sum.
inline f64 odd_sum(f64 a, f64 b) {
  auto sum = a + b;
  auto part = sum - a;
  auto rest = (a - (sum - part)) + (b - part);
  auto bits = std::bit_cast<u64>(sum);
  if (rest == 0 || rest != rest || (bits & 1) != 0)
    return sum;
  // The result moves by one unit in the direction of the lost part: away from
  // zero, or towards it.
  auto outwards = (rest > 0) == (sum > 0);
  return std::bit_cast<f64>(outwards ? bits | 1 : bits - 1);
}

template <class H>
u16 flush_half(u16 x) {
  return (x & H::exponent) == 0 ? x & 0x8000 : x;
}

template <class H>
u16 finish(f64 x, u32 flags) {
  if ((flags & mod::sat) != 0)
    x = saturate(x);
  if ((flags & mod::relu) != 0 && x < 0)
    x = 0;
  return H::store(x, rounding_of(flags));
}
