// Integer, bit and predicate instructions.
#include "devices/cpu/exec/begin.hpp"

template <class T>
constexpr T int_div(T a, T b) {
  if (b == 0)
    return T(-1);
  if constexpr (std::is_signed_v<T>)
    if (b == T(-1))
      return T(std::make_unsigned_t<T>(0) - std::make_unsigned_t<T>(a));
  return T(a / b);
}

template <class T>
constexpr T int_rem(T a, T b) {
  if (b == 0)
    return a;
  if constexpr (std::is_signed_v<T>)
    if (b == T(-1))
      return 0;
  return T(a % b);
}

template <class T>
constexpr T shift_left(T a, u32 n) {
  return n < sizeof(T) * 8 ? T(a << (n & (sizeof(T) * 8 - 1))) : T(0);
}

template <class T>
constexpr T shift_right(T a, u32 n) {
  constexpr auto bits = u32(sizeof(T) * 8);
  if constexpr (std::is_signed_v<T>)
    return T(a >> (n < bits ? n : bits - 1));
  else
    return n < bits ? T(a >> (n & (bits - 1))) : T(0);
}

inline u64 mul_high_u64(u64 a, u64 b) {
  __extension__ using wide = unsigned __int128;
  return u64((wide{a} * wide{b}) >> 64);
}

inline s64 mul_high_s64(s64 a, s64 b) {
  __extension__ using wide = __int128;
  return s64((wide{a} * wide{b}) >> 64);
}

constexpr s32 sign24(u32 a) {
  return s32(a << 8) >> 8;
}

template <class T>
constexpr T saturated_add(T a, T b) {
  auto sum = s64{a} + s64{b};
  return sum > 2147483647      ? 2147483647
         : sum < -2147483648LL ? T(-2147483647 - 1)
                               : T(sum);
}

template <class T>
constexpr T saturated_sub(T a, T b) {
  auto x = s64{a} - s64{b};
  return x > 2147483647      ? 2147483647
         : x < -2147483648LL ? T(-2147483647 - 1)
                             : T(x);
}

template <class T>
T bit_reverse(T x) {
  auto out = T{0};
  for (auto i = 0u; i < sizeof(T) * 8; ++i)
    out = T((out << 1) | ((x >> i) & 1));
  return out;
}

inline u32 bit_reverse32(u32 x) {
  x = ((x >> 1) & 0x55555555u) | ((x & 0x55555555u) << 1);
  x = ((x >> 2) & 0x33333333u) | ((x & 0x33333333u) << 2);
  x = ((x >> 4) & 0x0f0f0f0fu) | ((x & 0x0f0f0f0fu) << 4);
  return __builtin_bswap32(x);
}

// Returns the position of the highest bit that differs from the sign, or -1.
template <class T>
u32 find_highest(T a) {
  auto x = std::make_unsigned_t<T>(a);
  if constexpr (std::is_signed_v<T>)
    x = a < 0 ? std::make_unsigned_t<T>(~x) : x;
  if (x == 0)
    return ~0u;
  return u32(63 - __builtin_clzll(u64{x}));
}

template <class T>
u32 find_highest_shift(T a) {
  auto at = find_highest(a);
  return at == ~0u ? at : u32(sizeof(T) * 8 - 1) - at;
}

template <class T>
T extract(T a, u32 b, u32 c) {
  using U = std::make_unsigned_t<T>;
  constexpr auto bits = u32(sizeof(T) * 8);
  auto pos = b & 255;
  auto len = c & 255;
  if (len == 0)
    return 0;
  auto sign = U{0};
  if constexpr (std::is_signed_v<T>) {
    auto at = std::min(pos + len - 1, bits - 1);
    sign = ((U(a) >> at) & 1) != 0 ? U(~U{0}) : U{0};
  }
  auto x = pos < bits ? U(U(a) >> pos) : U{0};
  // The bits above the source are its sign.
  if (pos != 0 && pos < bits)
    x = U(x | U(sign << (bits - pos)));
  if (pos >= bits)
    x = sign;
  if (len >= bits)
    return T(x);
  auto keep = U((U{1} << len) - 1);
  return T((x & keep) | (sign & U(~keep)));
}

template <class T>
T insert(T a, T b, u32 c, u32 d) {
  constexpr auto bits = u32(sizeof(T) * 8);
  auto pos = c & 255;
  auto len = d & 255;
  if (len == 0 || pos >= bits)
    return b;
  auto keep = len >= bits ? ~T{0} : T((T{1} << len) - 1);
  auto field = T(keep << pos);
  return T((b & ~field) | ((a << pos) & field));
}

template <bool Wrap>
u32 bit_mask(u32 a, u32 b) {
  auto pos = Wrap ? a & 31 : a;
  auto len = Wrap ? b & 31 : b;
  if (pos >= 32)
    return 0;
  auto m = len >= 32 ? ~0u : (1u << len) - 1;
  return m << pos;
}

template <bool Wrap>
s32 extend_from(s32 a, u32 b, bool is_signed) {
  auto n = Wrap ? b & 31 : std::min(b, 32u);
  if (n == 0)
    return 0;
  if (n >= 32)
    return a;
  auto x = u32(a) << (32 - n);
  return is_signed ? s32(x) >> (32 - n) : s32(x >> (32 - n));
}

inline u32 permute(u32 a, u32 b, u32 c, s64 mode) {
  auto both = u64{a} | (u64{b} << 32);
  auto byte = [&](u32 i) { return u32(both >> (8 * (i & 7))) & 255; };
  auto out = 0u;
  auto n = c & 3;
  for (auto i = 0u; i < 4; ++i) {
    auto x = 0u;
    switch (mode) {
    case 0: {
      auto s = (c >> (4 * i)) & 15;
      x = byte(s);
      if ((s & 8) != 0)
        x = (x & 128) != 0 ? 255 : 0;
      break;
    }
    case 1: // f4e
      x = byte(n + i);
      break;
    case 2: // b4e
      x = byte(n - i + 8);
      break;
    case 3: // rc8
      x = byte(n);
      break;
    case 4: // ecl
      x = byte(std::max(i, n));
      break;
    case 5: // ecr
      x = byte(std::min(i, n));
      break;
    default: // rc16
      x = byte((n & 1) * 2 + (i & 1));
      break;
    }
    out |= x << (8 * i);
  }
  return out;
}

constexpr u32 logic3(u32 a, u32 b, u32 c, s64 table) {
  auto out = 0u;
  for (auto i = 0u; i < 8; ++i)
    if (((table >> i) & 1) != 0)
      out |= ((i & 4) != 0 ? a : ~a) & ((i & 2) != 0 ? b : ~b) &
             ((i & 1) != 0 ? c : ~c);
  return out;
}

// Executes lop3. The table's terms become masks, so every lane does the same
// work.
inline const instr* lop3(warp& w, const instr* in) {
  auto a = reg<u32>(w, in, fa);
  auto b = reg<u32>(w, in, fb);
  auto c = reg<u32>(w, in, fc);
  auto t = [&](unsigned i) { return ((in->imm >> i) & 1) != 0 ? ~0u : 0u; };
  u32 k[8];
  for (auto i = 0u; i < 8; ++i)
    k[i] = t(i);
  return fill<u32>(w, in, [=](unsigned l) {
    // This is a tree of selections: by c, then b, then a.
    auto pick = [](u32 s, u32 x1, u32 x0) { return (s & x1) | (~s & x0); };
    auto x0 = pick(c[l], k[1], k[0]);
    auto x1 = pick(c[l], k[3], k[2]);
    auto x2 = pick(c[l], k[5], k[4]);
    auto x3 = pick(c[l], k[7], k[6]);
    return pick(a[l], pick(b[l], x3, x2), pick(b[l], x1, x0));
  });
}

template <bool Left, bool Wrap>
u32 funnel(u32 a, u32 b, u32 c) {
  auto n = Wrap ? c & 31 : std::min(c, 32u);
  auto both = (u64{b} << 32) | a;
  if constexpr (Left)
    return u32((both << n) >> 32);
  else
    return u32(both >> n);
}

template <class A, class B>
s32 dot4(u32 a, u32 b, s32 c) {
  auto out = u32(c);
  for (auto i = 0u; i < 4; ++i)
    out += u32(s32(A(a >> (8 * i))) * s32(B(b >> (8 * i))));
  return s32(out);
}

template <class A, class B>
s32 dot2(u32 a, u32 b, s32 c, s64 high) {
  auto out = u32(c);
  for (auto i = 0u; i < 2; ++i) {
    auto x =
        s32(std::conditional_t<std::is_signed_v<A>, s16, u16>(a >> (16 * i)));
    auto y = s32(B(b >> (8 * (i + (high != 0 ? 2 : 0)))));
    out += u32(x * y);
  }
  return s32(out);
}

template <class T>
T abs_diff(T a, T b) {
  using U = std::make_unsigned_t<T>;
  return a < b ? T(U(b) - U(a)) : T(U(a) - U(b));
}

template <class T>
u32 abs_diff4(u32 a, u32 b, u32 c, s64 add) {
  auto out = add != 0 ? c : 0u;
  for (auto i = 0u; i < 4; ++i) {
    auto x = s32(T(a >> (8 * i)));
    auto y = s32(T(b >> (8 * i)));
    auto d = u32(x < y ? y - x : x - y);
    out = add != 0 ? out + d : out | ((d & 255) << (8 * i));
  }
  return out;
}

inline u32 find_nth(u32 mask, u32 base, s32 offset) {
  base &= 31;
  if (offset == 0)
    return ((mask >> base) & 1) != 0 ? base : ~0u;
  auto step = offset > 0 ? 1 : -1;
  auto left = offset > 0 ? offset : -offset;
  for (auto i = s32(base); i >= 0 && i < 32; i += step)
    if (((mask >> i) & 1) != 0 && --left == 0)
      return u32(i);
  return ~0u;
}

// -- carry chains -------------------------------------------------------------

// Adds a, b (inverted when Sub) and a carry for each lane. After a subtraction
// the flag is the carry of that sum, so it is true when nothing was borrowed;
// nvcc's 128-bit division reads it with addc.
template <class T, bool Sub, bool Uses>
const instr* add_carry(warp& w, const instr* in) {
  auto a = reg<T>(w, in, fa);
  auto b = reg<T>(w, in, fb);
  auto d = reg<T>(w, in, fd);
  auto out = lane_mask{0};
  auto carry = Uses ? w.carry : (Sub ? all_lanes : 0u);
  each_lane(w.mask, [&](unsigned l) {
    auto y = Sub ? T(~b[l]) : b[l];
    auto sum = T(0);
    auto c1 = __builtin_add_overflow(a[l], y, &sum);
    auto c2 = __builtin_add_overflow(sum, T((carry >> l) & 1), &sum);
    d[l] = sum;
    out |= c1 || c2 ? lane_bits[l] : 0u;
  });
  if ((in->flags & mod::cc) != 0)
    w.carry = (w.carry & ~w.mask) | (out & w.mask);
  return in + 1;
}

template <class T, bool High, bool Uses>
const instr* mad_carry(warp& w, const instr* in) {
  auto a = reg<T>(w, in, fa);
  auto b = reg<T>(w, in, fb);
  auto c = reg<T>(w, in, fc);
  auto d = reg<T>(w, in, fd);
  auto out = lane_mask{0};
  auto carry = Uses ? w.carry : 0u;
  using wide = std::conditional_t<std::is_signed_v<T>, s64, u64>;
  each_lane(w.mask, [&](unsigned l) {
    auto product = T(0);
    if constexpr (!High)
      product =
          T(std::make_unsigned_t<T>(a[l]) * std::make_unsigned_t<T>(b[l]));
    else if constexpr (sizeof(T) == 4)
      product = T((wide(a[l]) * wide(b[l])) >> 32);
    else if constexpr (std::is_signed_v<T>)
      product = mul_high_s64(a[l], b[l]);
    else
      product = mul_high_u64(a[l], b[l]);
    using U = std::make_unsigned_t<T>;
    auto sum = U(0);
    auto c1 = __builtin_add_overflow(U(product), U(c[l]), &sum);
    auto c2 = __builtin_add_overflow(sum, U((carry >> l) & 1), &sum);
    d[l] = T(sum);
    out |= c1 || c2 ? lane_bits[l] : 0u;
  });
  if ((in->flags & mod::cc) != 0)
    w.carry = (w.carry & ~w.mask) | (out & w.mask);
  return in + 1;
}

// -- predicates ---------------------------------------------------------------

template <auto F>
const instr* predicate2(warp& w, const instr* in) {
  set_pred(w, in, fd, F(pred(w, in, fa), pred(w, in, fb)));
  return in + 1;
}

template <auto F>
const instr* predicate1(warp& w, const instr* in) {
  set_pred(w, in, fd, F(pred(w, in, fa)));
  return in + 1;
}

template <class T>
const instr* select(warp& w, const instr* in) {
  auto a = reg<T>(w, in, fa);
  auto b = reg<T>(w, in, fb);
  auto p = pred(w, in, fc);
  return fill<T>(w, in,
                 [=](unsigned l) { return has_lane(p, l) ? a[l] : b[l]; });
}

// -- packing ------------------------------------------------------------------

template <class D, class S, unsigned N>
const instr* pack(warp& w, const instr* in) {
  constexpr field from[] = {fa, fb, fc, fe};
  const S* s[N];
  for (auto i = 0u; i < N; ++i)
    s[i] = reg<S>(w, in, from[i]);
  return fill<D>(w, in, [&](unsigned l) {
    auto out = D{0};
    for (auto i = 0u; i < N; ++i)
      out = D(out | D(D(s[i][l]) << (8 * sizeof(S) * i)));
    return out;
  });
}

template <class D, class S, unsigned N>
const instr* unpack(warp& w, const instr* in) {
  // The destinations are fd, fb, fc and fe. Any may be absent.
  constexpr field to[] = {fd, fb, fc, fe};
  auto a = reg<S>(w, in, fa);
  S copy[lanes];
  std::memcpy(copy, a, sizeof copy);
  for (auto i = 0u; i < N; ++i) {
    if (in->o[to[i]] < 0)
      continue;
    auto d = reg<D>(w, in, to[i]);
    auto m = w.mask;
    for (auto l = 0u; l < lanes; ++l)
      d[l] = has_lane(m, l) ? D(copy[l] >> (8 * sizeof(D) * i)) : d[l];
  }
  return in + 1;
}

// This is a table, and laid out as one.
// clang-format off
#define INT_SIGNLESS(n, U)                                                     \
  OP2("add.b" #n, U, U, U, a + b)                                              \
  OP2("sub.b" #n, U, U, U, a - b)                                              \
  OP2("mul.lo.b" #n, U, U, U, u64{a} * u64{b})                                 \
  OP3("mad.lo.b" #n, U, U, U, U, u64{a} * u64{b} + c)                          \
  OP2("and.b" #n, U, U, U, a & b)                                              \
  OP2("or.b" #n, U, U, U, a | b)                                               \
  OP2("xor.b" #n, U, U, U, a ^ b)                                              \
  OP1("not.b" #n, U, U, ~a)                                                    \
  OP1("cnot.b" #n, U, U, a == 0 ? 1 : 0)                                       \
  OP1("neg.b" #n, U, U, U(0) - a)                                              \
  OP1("mov.b" #n, U, U, a)                                                     \
  OP2("shl.b" #n, U, U, u32, shift_left<U>(a, b))                              \
  op_entry{"selp.b" #n, &select<U>,                                            \
           sizeof(U) == 2 ? "B22p" : sizeof(U) == 4 ? "D44p" : "H88p"},        \
  CMP("setp.eq.b" #n, U, a == b)                                               \
  CMP("setp.ne.b" #n, U, a != b)

#define INT_SIGNED(t, T)                                                       \
  OP2("div." #t, T, T, T, int_div<T>(a, b))                                    \
  OP2("rem." #t, T, T, T, int_rem<T>(a, b))                                    \
  OP2("min." #t, T, T, T, a < b ? a : b)                                       \
  OP2("max." #t, T, T, T, a < b ? b : a)                                       \
  OP2("shr." #t, T, T, u32, shift_right<T>(a, b))                              \
  OP3("sad." #t, T, T, T, T,                                                   \
      std::make_unsigned_t<T>(c) + std::make_unsigned_t<T>(abs_diff<T>(a, b))) \
  CMP("setp.lt." #t, T, a < b)                                                 \
  CMP("setp.le." #t, T, a <= b)                                                \
  CMP("setp.gt." #t, T, a > b)                                                 \
  CMP("setp.ge." #t, T, a >= b)

static const op_entry ops[] = {
  INT_SIGNLESS(16, u16)
  INT_SIGNLESS(32, u32)
  INT_SIGNLESS(64, u64)
  INT_SIGNED(u16, u16)
  INT_SIGNED(s16, s16)
  INT_SIGNED(u32, u32)
  INT_SIGNED(s32, s32)
  INT_SIGNED(u64, u64)
  INT_SIGNED(s64, s64)
  OP1("abs.s16", s16, s16, a < 0 ? -a : a)
  OP1("abs.s32", s32, s32, a < 0 ? 0u - u32(a) : u32(a))
  OP1("abs.s64", s64, s64, a < 0 ? 0u - u64(a) : u64(a))
  OP1("mov.b8", u8, u8, a)
  OP2("add.sat.s32", s32, s32, s32, saturated_add(a, b))
  OP2("sub.sat.s32", s32, s32, s32, saturated_sub(a, b))
  OP2("mul.hi.u16", u16, u16, u16, (u32{a} * u32{b}) >> 16)
  OP2("mul.hi.s16", s16, s16, s16, (s32{a} * s32{b}) >> 16)
  OP2("mul.hi.u32", u32, u32, u32, (u64{a} * u64{b}) >> 32)
  OP2("mul.hi.s32", s32, s32, s32, (s64{a} * s64{b}) >> 32)
  OP2("mul.hi.u64", u64, u64, u64, mul_high_u64(a, b))
  OP2("mul.hi.s64", s64, s64, s64, mul_high_s64(a, b))
  OP2("mul.wide.u16", u32, u16, u16, u32{a} * u32{b})
  OP2("mul.wide.s16", s32, s16, s16, s32{a} * s32{b})
  OP2("mul.wide.u32", u64, u32, u32, u64{a} * u64{b})
  OP2("mul.wide.s32", s64, s32, s32, s64{a} * s64{b})
  OP3("mad.hi.u16", u16, u16, u16, u16, ((u32{a} * u32{b}) >> 16) + c)
  OP3("mad.hi.s16", s16, s16, s16, s16, ((s32{a} * s32{b}) >> 16) + c)
  OP3("mad.hi.u32", u32, u32, u32, u32, ((u64{a} * u64{b}) >> 32) + c)
  OP3("mad.hi.s32", u32, s32, s32, u32, u32((s64{a} * s64{b}) >> 32) + c)
  OP3("mad.hi.sat.s32", s32, s32, s32, s32,
      saturated_add(s32((s64{a} * s64{b}) >> 32), c))
  OP3("mad.hi.u64", u64, u64, u64, u64, mul_high_u64(a, b) + c)
  OP3("mad.hi.s64", u64, s64, s64, u64, u64(mul_high_s64(a, b)) + c)
  OP3("mad.wide.u16", u32, u16, u16, u32, u32{a} * u32{b} + c)
  OP3("mad.wide.s16", u32, s16, s16, u32, u32(s32{a} * s32{b}) + c)
  OP3("mad.wide.u32", u64, u32, u32, u64, u64{a} * u64{b} + c)
  OP3("mad.wide.s32", u64, s32, s32, u64, u64(s64{a} * s64{b}) + c)
  OP2("mul24.lo.u32", u32, u32, u32, u64{a & 0xffffff} * (b & 0xffffff))
  OP2("mul24.lo.s32", u32, u32, u32, s64{sign24(a)} * sign24(b))
  OP2("mul24.hi.u32", u32, u32, u32,
      (u64{a & 0xffffff} * (b & 0xffffff)) >> 16)
  OP2("mul24.hi.s32", u32, u32, u32, (s64{sign24(a)} * sign24(b)) >> 16)
  OP3("mad24.lo.u32", u32, u32, u32, u32,
      u64{a & 0xffffff} * (b & 0xffffff) + c)
  OP3("mad24.lo.s32", u32, u32, u32, u32,
      u32(s64{sign24(a)} * sign24(b)) + c)
  OP3("mad24.hi.u32", u32, u32, u32, u32,
      ((u64{a & 0xffffff} * (b & 0xffffff)) >> 16) + c)
  OP3("mad24.hi.s32", u32, u32, u32, u32,
      u32((s64{sign24(a)} * sign24(b)) >> 16) + c)
  OP2("shr.b16", u16, u16, u32, shift_right<u16>(a, b))
  OP2("shr.b32", u32, u32, u32, shift_right<u32>(a, b))
  OP2("shr.b64", u64, u64, u32, shift_right<u64>(a, b))
  OP1("popc.b32", u32, u32, __builtin_popcount(a))
  OP1("popc.b64", u32, u64, __builtin_popcountll(a))
  OP1("clz.b32", u32, u32, a == 0 ? 32 : __builtin_clz(a))
  OP1("clz.b64", u32, u64, a == 0 ? 64 : __builtin_clzll(a))
  OP1("brev.b32", u32, u32, bit_reverse32(a))
  OP1("brev.b64", u64, u64, bit_reverse<u64>(a))
  OP1("bfind.u32", u32, u32, find_highest(a))
  OP1("bfind.s32", u32, s32, find_highest(a))
  OP1("bfind.u64", u32, u64, find_highest(a))
  OP1("bfind.s64", u32, s64, find_highest(a))
  OP1("bfind.shiftamt.u32", u32, u32, find_highest_shift(a))
  OP1("bfind.shiftamt.s32", u32, s32, find_highest_shift(a))
  OP1("bfind.shiftamt.u64", u32, u64, find_highest_shift(a))
  OP1("bfind.shiftamt.s64", u32, s64, find_highest_shift(a))
  OP3("bfe.u32", u32, u32, u32, u32, extract<u32>(a, b, c))
  OP3("bfe.s32", s32, s32, u32, u32, extract<s32>(a, b, c))
  OP3("bfe.u64", u64, u64, u32, u32, extract<u64>(a, b, c))
  OP3("bfe.s64", s64, s64, u32, u32, extract<s64>(a, b, c))
  OP4("bfi.b32", u32, u32, u32, u32, u32, insert<u32>(a, b, c, e))
  OP4("bfi.b64", u64, u64, u64, u32, u32, insert<u64>(a, b, c, e))
  OP2("bmsk.clamp.b32", u32, u32, u32, bit_mask<false>(a, b))
  OP2("bmsk.wrap.b32", u32, u32, u32, bit_mask<true>(a, b))
  OP2("szext.clamp.s32", s32, s32, u32, extend_from<false>(a, b, true))
  OP2("szext.clamp.u32", s32, s32, u32, extend_from<false>(a, b, false))
  OP2("szext.wrap.s32", s32, s32, u32, extend_from<true>(a, b, true))
  OP2("szext.wrap.u32", s32, s32, u32, extend_from<true>(a, b, false))
  OP3("fns.b32", u32, u32, u32, s32, find_nth(a, b, c))
  OP3("shf.l.clamp.b32", u32, u32, u32, u32, (funnel<true, false>(a, b, c)))
  OP3("shf.l.wrap.b32", u32, u32, u32, u32, (funnel<true, true>(a, b, c)))
  OP3("shf.r.clamp.b32", u32, u32, u32, u32, (funnel<false, false>(a, b, c)))
  OP3("shf.r.wrap.b32", u32, u32, u32, u32, (funnel<false, true>(a, b, c)))
  OP3("dp4a.u32.u32", s32, u32, u32, s32, (dot4<u8, u8>(a, b, c)))
  OP3("dp4a.u32.s32", s32, u32, u32, s32, (dot4<u8, s8>(a, b, c)))
  OP3("dp4a.s32.u32", s32, u32, u32, s32, (dot4<s8, u8>(a, b, c)))
  OP3("dp4a.s32.s32", s32, u32, u32, s32, (dot4<s8, s8>(a, b, c)))
  op_entry{"dp2a.u32.u32", &map3i<s32, u32, u32, s32, &dot2<u8, u8>>, "D444"},
  op_entry{"dp2a.u32.s32", &map3i<s32, u32, u32, s32, &dot2<u8, s8>>, "D444"},
  op_entry{"dp2a.s32.u32", &map3i<s32, u32, u32, s32, &dot2<s8, u8>>, "D444"},
  op_entry{"dp2a.s32.s32", &map3i<s32, u32, u32, s32, &dot2<s8, s8>>, "D444"},
  op_entry{"vabsdiff4.u32", &map3i<u32, u32, u32, u32, &abs_diff4<u8>>,
           "D444"},
  op_entry{"vabsdiff4.s32", &map3i<u32, u32, u32, u32, &abs_diff4<s8>>,
           "D444"},
  op_entry{"prmt.b32", &map3i<u32, u32, u32, u32, &permute>, "D444"},
  op_entry{"lop3.b32", &lop3, "D444"},
  op_entry{"addc0.b32", &add_carry<u32, false, false>, "D44"},
  op_entry{"addc1.b32", &add_carry<u32, false, true>, "D44"},
  op_entry{"subc0.b32", &add_carry<u32, true, false>, "D44"},
  op_entry{"subc1.b32", &add_carry<u32, true, true>, "D44"},
  op_entry{"addc0.b64", &add_carry<u64, false, false>, "H88"},
  op_entry{"addc1.b64", &add_carry<u64, false, true>, "H88"},
  op_entry{"subc0.b64", &add_carry<u64, true, false>, "H88"},
  op_entry{"subc1.b64", &add_carry<u64, true, true>, "H88"},
#define MAD_CARRY(t, T, s)                                                     \
  op_entry{"madc0.lo." #t, &mad_carry<T, false, false>, s},                    \
  op_entry{"madc1.lo." #t, &mad_carry<T, false, true>, s},                     \
  op_entry{"madc0.hi." #t, &mad_carry<T, true, false>, s},                     \
  op_entry{"madc1.hi." #t, &mad_carry<T, true, true>, s},
  MAD_CARRY(u32, u32, "D444")
  MAD_CARRY(s32, s32, "D444")
  MAD_CARRY(u64, u64, "H888")
  MAD_CARRY(s64, s64, "H888")
#undef MAD_CARRY
  op_entry{"and.pred",
           &predicate2<[](lane_mask a, lane_mask b) { return a & b; }>, "Ppp"},
  op_entry{"or.pred",
           &predicate2<[](lane_mask a, lane_mask b) { return a | b; }>, "Ppp"},
  op_entry{"xor.pred",
           &predicate2<[](lane_mask a, lane_mask b) { return a ^ b; }>, "Ppp"},
  op_entry{"andn.pred", // the second operand is negated
           &predicate2<[](lane_mask a, lane_mask b) { return a & ~b; }>,
           "Ppp"},
  op_entry{"not.pred", &predicate1<[](lane_mask a) { return ~a; }>, "Pp"},
  op_entry{"mov.pred", &predicate1<[](lane_mask a) { return a; }>, "Pp"},
  op_entry{"pack2.b16", &pack<u16, u8, 2>, "B11"},
  op_entry{"pack2.b32", &pack<u32, u16, 2>, "D22"},
  op_entry{"pack2.b64", &pack<u64, u32, 2>, "H44"},
  op_entry{"pack4.b32", &pack<u32, u8, 4>, "D1111"},
  op_entry{"pack4.b64", &pack<u64, u16, 4>, "H2222"},
  op_entry{"unpack2.b16", &unpack<u8, u16, 2>, "A2A"},
  op_entry{"unpack2.b32", &unpack<u16, u32, 2>, "B4B"},
  op_entry{"unpack2.b64", &unpack<u32, u64, 2>, "D8D"},
  op_entry{"unpack4.b32", &unpack<u8, u32, 4>, "A4AAA"},
  op_entry{"unpack4.b64", &unpack<u16, u64, 4>, "B8BBB"},
};
// clang-format on

#define VGPU_PART integer_ops
#include "devices/cpu/exec/end.hpp"
