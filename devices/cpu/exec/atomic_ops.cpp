// Atomic read-modify-write operations. In shared memory, which one host thread
// owns, a plain operation is enough.
#include "devices/cpu/exec/begin.hpp"
#include "devices/cpu/exec/numbers.inl"
#include "devices/cpu/exec/spaces.inl"

template <class T>
struct cell {
  using bits = std::conditional_t<sizeof(T) == 2, u16,
                                  std::conditional_t<sizeof(T) == 4, u32, u64>>;
};

// Replaces *p by f(*p) and returns the old value.
template <bool Plain, class T, class F>
T modify(std::byte* p, F f) {
  using U = typename cell<T>::bits;
  if constexpr (Plain) {
    auto old = peek<T>(p);
    poke<T>(p, f(old));
    return old;
  } else {
    auto at = reinterpret_cast<U*>(p);
    auto old = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(
        at, &old, std::bit_cast<U>(f(std::bit_cast<T>(old))), true,
        __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
    }
    return std::bit_cast<T>(old);
  }
}

struct do_add {
  template <bool Plain, class T>
  static T run(std::byte* p, T b, T) {
    if constexpr (!Plain && std::is_integral_v<T> && sizeof(T) >= 4)
      return __atomic_fetch_add(reinterpret_cast<T*>(p), b, __ATOMIC_SEQ_CST);
    else
      return modify<Plain, T>(p, [=](T a) {
        if constexpr (std::is_floating_point_v<T>)
          return canonical(a + b);
        else
          return T(a + b);
      });
  }
};
struct do_exch {
  template <bool Plain, class T>
  static T run(std::byte* p, T b, T) {
    return modify<Plain, T>(p, [=](T) { return b; });
  }
};
struct do_cas {
  template <bool Plain, class T>
  static T run(std::byte* p, T b, T c) {
    if constexpr (Plain) {
      return modify<Plain, T>(p, [=](T a) { return a == b ? c : a; });
    } else {
      __atomic_compare_exchange_n(reinterpret_cast<T*>(p), &b, c, false,
                                  __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
      return b;
    }
  }
};
#define SIMPLE_ATOMIC(name, expr)                                              \
  struct name {                                                                \
    template <bool Plain, class T>                                             \
    static T run(std::byte* p, T b, T) {                                       \
      return modify<Plain, T>(p, [=](T a) { return T(expr); });                \
    }                                                                          \
  };
SIMPLE_ATOMIC(do_min, a < b ? a : b)
SIMPLE_ATOMIC(do_max, a < b ? b : a)
SIMPLE_ATOMIC(do_and, a& b)
SIMPLE_ATOMIC(do_or, a | b)
SIMPLE_ATOMIC(do_xor, a ^ b)
SIMPLE_ATOMIC(do_inc, a >= b ? T(0) : T(a + 1))
SIMPLE_ATOMIC(do_dec, a == 0 || a > b ? b : T(a - 1))
#undef SIMPLE_ATOMIC

// Adds each 16-bit part.
template <class H>
struct do_add_halves {
  template <bool Plain, class T>
  static T run(std::byte* p, T b, T) {
    return modify<Plain, T>(p, [=](T a) {
      auto out = u32{0};
      for (auto k = 0u; k < sizeof(T) / 2; ++k)
        out |= u32{H::store(H::load(u16(u32{a} >> (16 * k))) +
                                H::load(u16(u32{b} >> (16 * k))),
                            rounding::nearest)}
               << (16 * k);
      return T(out);
    });
  }
};

template <class H, bool Max>
struct do_extreme_halves {
  template <bool Plain, class T>
  static T run(std::byte* p, T b, T) {
    return modify<Plain, T>(p, [=](T a) {
      auto out = u32{0};
      for (auto k = 0u; k < sizeof(T) / 2; ++k) {
        auto x = H::load(u16(u32{a} >> (16 * k)));
        auto y = H::load(u16(u32{b} >> (16 * k)));
        out |= u32{H::store(Max ? maximum(x, y) : minimum(x, y),
                            rounding::nearest)}
               << (16 * k);
      }
      return T(out);
    });
  }
};

// Operates for all lanes, at addresses that need no further check; p is that of
// address 0.
template <class T, class Op, bool Plain, class A>
void modify_all(std::byte* p, const A* a, A offset, const T* b, const T* c,
                T* d) {
  if constexpr (std::is_same_v<Op, do_add> && std::is_integral_v<T>) {
    auto differ = A{0};
    auto sum = T{0};
    for (auto l = 0u; l < lanes; ++l) {
      differ |= A(a[l] ^ a[0]);
      sum = T(sum + b[l]);
    }
    if (differ == 0) { // lanes in order, without others between
      auto old = Op::template run<Plain, T>(p + A(a[0] + offset), sum, sum);
      for (auto l = 0u; l < lanes && d != nullptr; ++l) {
        auto mine = b[l]; // d may be b
        d[l] = old;
        old = T(old + mine);
      }
      return;
    }
  }
  if (d == nullptr) {
#pragma GCC unroll 8
    for (auto l = 0u; l < lanes; ++l)
      Op::template run<Plain, T>(p + A(a[l] + offset), b[l], c[l]);
    return;
  }
  // d may be the same register as a, because each lane reads its address before
  // it writes its result.
  for (auto l = 0u; l < lanes; ++l) {
    auto old = Op::template run<Plain, T>(p + A(a[l] + offset), b[l], c[l]);
    d[l] = old;
  }
}

template <class T, class Op, class S, bool Plain, bool Two>
const instr* atomic(warp& w, const instr* in) {
  using A = typename S::address;
  auto a = reg<A>(w, in, fa);
  auto b = reg<T>(w, in, fb);
  auto c = Two ? reg<T>(w, in, fc) : b;
  auto d = in->o[fd] >= 0 ? reg<T>(w, in, fd) : nullptr;
  // A lane that uses no result does not wait for a change.
  if (d != nullptr)
    w.may_spin();
  if (w.mask == all_lanes && S::near(w, a, u64(in->imm), sizeof(T)))
      [[likely]] {
    auto offset = A(u64(in->imm));
    auto first = u64(A(a[0] + offset));
    modify_all<T, Op, Plain>(S::run(w, first, sizeof(T)) - first, a, offset, b,
                             c, d);
    return in + 1;
  }
  for (auto m = w.mask; m != 0; m &= m - 1) {
    auto l = u32(__builtin_ctz(m));
    auto x = u64(A(a[l] + A(u64(in->imm))));
    auto p = x % sizeof(T) == 0 ? S::lane(w, l, x, sizeof(T)) : nullptr;
    if (p == nullptr)
      return bad_address(w, in, S::generic(x), sizeof(T));
    auto old = Op::template run<Plain, T>(p, b[l], c[l]);
    if (d != nullptr)
      d[l] = old;
  }
  return in + 1;
}

template <class T, char A, bool Two>
inline constexpr auto atomic_text = std::array<char, 8>{
    '?', write_letter<T>, A, read_letter<T>, Two ? read_letter<T> : '\0'};

// This is a table, and laid out as one.
// clang-format off
#define ATOMIC(op, t, T, Op, two)                                              \
  op_entry{"atom.global.a8." op "." t,                                         \
           &atomic<T, Op, global_space, false, two>,                           \
           atomic_text<T, '8', two>.data()},                                   \
  op_entry{"atom.generic.a8." op "." t,                                        \
           &atomic<T, Op, generic_space, false, two>,                          \
           atomic_text<T, '8', two>.data()},                                   \
  op_entry{"atom.shared.a4." op "." t,                                         \
           &atomic<T, Op, shared_space<u32>, true, two>,                       \
           atomic_text<T, '4', two>.data()},                                   \
  op_entry{"atom.shared.a8." op "." t,                                         \
           &atomic<T, Op, shared_space<u64>, true, two>,                       \
           atomic_text<T, '8', two>.data()},

static const op_entry ops[] = {
  ATOMIC("add", "u32", u32, do_add, false)
  ATOMIC("add", "u64", u64, do_add, false)
  ATOMIC("add", "f32", f32, do_add, false)
  ATOMIC("add", "f64", f64, do_add, false)
  ATOMIC("add", "f16", u16, do_add_halves<half>, false)
  ATOMIC("add", "f16x2", u32, do_add_halves<half>, false)
  ATOMIC("add", "bf16", u16, do_add_halves<bfloat>, false)
  ATOMIC("add", "bf16x2", u32, do_add_halves<bfloat>, false)
#define EXTREME(op, t, T, H, max)                                              \
  op_entry{"atom.global.a8." op "." t,                                         \
           &atomic<T, do_extreme_halves<H, max>, global_space, false, false>,  \
           atomic_text<T, '8', false>.data()},                                 \
  op_entry{"atom.generic.a8." op "." t,                                        \
           &atomic<T, do_extreme_halves<H, max>, generic_space, false, false>, \
           atomic_text<T, '8', false>.data()},
  EXTREME("min", "f16", u16, half, false)
  EXTREME("min", "f16x2", u32, half, false)
  EXTREME("min", "bf16", u16, bfloat, false)
  EXTREME("min", "bf16x2", u32, bfloat, false)
  EXTREME("max", "f16", u16, half, true)
  EXTREME("max", "f16x2", u32, half, true)
  EXTREME("max", "bf16", u16, bfloat, true)
  EXTREME("max", "bf16x2", u32, bfloat, true)
  ATOMIC("min", "u32", u32, do_min, false)
  ATOMIC("min", "s32", s32, do_min, false)
  ATOMIC("min", "u64", u64, do_min, false)
  ATOMIC("min", "s64", s64, do_min, false)
  ATOMIC("max", "u32", u32, do_max, false)
  ATOMIC("max", "s32", s32, do_max, false)
  ATOMIC("max", "u64", u64, do_max, false)
  ATOMIC("max", "s64", s64, do_max, false)
  ATOMIC("inc", "u32", u32, do_inc, false)
  ATOMIC("dec", "u32", u32, do_dec, false)
  ATOMIC("and", "b32", u32, do_and, false)
  ATOMIC("and", "b64", u64, do_and, false)
  ATOMIC("or", "b32", u32, do_or, false)
  ATOMIC("or", "b64", u64, do_or, false)
  ATOMIC("xor", "b32", u32, do_xor, false)
  ATOMIC("xor", "b64", u64, do_xor, false)
  ATOMIC("exch", "b32", u32, do_exch, false)
  ATOMIC("exch", "b64", u64, do_exch, false)
  ATOMIC("cas", "b16", u16, do_cas, true)
  ATOMIC("cas", "b32", u32, do_cas, true)
  ATOMIC("cas", "b64", u64, do_cas, true)
};
// clang-format on

#define VGPU_PART atomic_ops
#include "devices/cpu/exec/end.hpp"
