// How an instruction is applied to the lanes of a warp. The file is included
// once for each processor level, inside its namespace.

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
using f32 = float;
using f64 = double;

template <class T>
[[gnu::always_inline]] inline T* reg(warp& w, const instr* in, field f) {
  auto p = w.regs + in->o[f];
  return static_cast<T*>(__builtin_assume_aligned(p, 64));
}

[[gnu::always_inline]] inline lane_mask& pred(warp& w, const instr* in,
                                              field f) {
  return *reinterpret_cast<lane_mask*>(w.regs + in->o[f]);
}

[[gnu::always_inline]] inline void set_pred(warp& w, const instr* in, field f,
                                            lane_mask to) {
  auto& p = pred(w, in, f);
  p = (p & ~w.mask) | (to & w.mask);
}

[[gnu::always_inline]] inline bool has_lane(lane_mask m, unsigned l) {
  return ((m >> l) & 1u) != 0;
}

// Calls f(lane) for each lane of m, lowest first.
template <class F>
[[gnu::always_inline]] inline void each_lane(lane_mask m, F f) {
  for (; m != 0; m &= m - 1)
    f(static_cast<unsigned>(__builtin_ctz(m)));
}

inline constexpr auto lane_bits = [] {
  auto out = std::array<u32, lanes>{};
  for (auto l = 0u; l < lanes; ++l)
    out[l] = 1u << l;
  return out;
}();

/// Sets the active lanes of a register. It computes the values of inactive
/// lanes too, because a loop without branches is vectorised.
template <class D, class F>
[[gnu::always_inline]] inline const instr* fill(warp& w, const instr* in,
                                                F f) {
  auto d = reg<D>(w, in, fd);
  if (w.mask == all_lanes) [[likely]] {
#pragma GCC ivdep
    for (auto l = 0u; l < lanes; ++l)
      d[l] = f(l);
  } else {
    alignas(64) std::array<D, lanes> x;
    auto m = w.mask;
#pragma GCC ivdep
    for (auto l = 0u; l < lanes; ++l)
      x[l] = f(l);
#pragma GCC ivdep
    for (auto l = 0u; l < lanes; ++l)
      d[l] = (m & lane_bits[l]) != 0 ? x[l] : d[l];
  }
  return in + 1;
}

template <class D, class A, auto F>
const instr* map1(warp& w, const instr* in) {
  auto a = reg<A>(w, in, fa);
  return fill<D>(w, in, [=](unsigned l) { return F(a[l]); });
}

template <class D, class A, class B, auto F>
const instr* map2(warp& w, const instr* in) {
  auto a = reg<A>(w, in, fa);
  auto b = reg<B>(w, in, fb);
  return fill<D>(w, in, [=](unsigned l) { return F(a[l], b[l]); });
}

template <class D, class A, class B, class C, auto F>
const instr* map3(warp& w, const instr* in) {
  auto a = reg<A>(w, in, fa);
  auto b = reg<B>(w, in, fb);
  auto c = reg<C>(w, in, fc);
  return fill<D>(w, in, [=](unsigned l) { return F(a[l], b[l], c[l]); });
}

template <class D, class A, class B, class C, class E, auto F>
const instr* map4(warp& w, const instr* in) {
  auto a = reg<A>(w, in, fa);
  auto b = reg<B>(w, in, fb);
  auto c = reg<C>(w, in, fc);
  auto e = reg<E>(w, in, fe);
  return fill<D>(w, in, [=](unsigned l) { return F(a[l], b[l], c[l], e[l]); });
}

// Applies F to three operands and the instruction's constant, lane by lane.
template <class D, class A, class B, class C, auto F>
const instr* map3i(warp& w, const instr* in) {
  auto a = reg<A>(w, in, fa);
  auto b = reg<B>(w, in, fb);
  auto c = reg<C>(w, in, fc);
  auto i = in->imm;
  return fill<D>(w, in, [=](unsigned l) { return F(a[l], b[l], c[l], i); });
}

template <class A, auto F>
const instr* compare(warp& w, const instr* in) {
  auto a = reg<A>(w, in, fa);
  auto b = reg<A>(w, in, fb);
  auto out = lane_mask{0};
  for (auto l = 0u; l < lanes; ++l)
    out |= F(a[l], b[l]) ? lane_bits[l] : 0u;
  set_pred(w, in, fd, out);
  return in + 1;
}

// Letters of signatures: see op_entry.
template <class T>
constexpr char read_letter = sizeof(T) == 1   ? '1'
                             : sizeof(T) == 2 ? '2'
                             : sizeof(T) == 4 ? '4'
                                              : '8';
template <class T>
constexpr char write_letter = sizeof(T) == 1   ? 'A'
                              : sizeof(T) == 2 ? 'B'
                              : sizeof(T) == 4 ? 'D'
                                               : 'H';
template <class D, class... S>
inline constexpr char sig[] = {write_letter<D>, read_letter<S>..., 0};

#define OP1(key, D, A, expr)                                                   \
  op_entry{key, &map1<D, A, [](A a) -> D { return D(expr); }>, sig<D, A>},
#define OP2(key, D, A, B, expr)                                                \
  op_entry{key, &map2<D, A, B, [](A a, B b) -> D { return D(expr); }>,         \
           sig<D, A, B>},
#define OP3(key, D, A, B, C, expr)                                             \
  op_entry{key,                                                                \
           &map3<D, A, B, C, [](A a, B b, C c) -> D { return D(expr); }>,      \
           sig<D, A, B, C>},
#define OP4(key, D, A, B, C, E, expr)                                          \
  op_entry{key,                                                                \
           &map4<D, A, B, C, E,                                                \
                 [](A a, B b, C c, E e) -> D { return D(expr); }>,             \
           sig<D, A, B, C, E>},
#define CMP(key, A, expr)                                                      \
  op_entry{key, &compare<A, [](A a, A b) { return (expr); }>,                  \
           read_letter<A> == '2'   ? "P22"                                     \
           : read_letter<A> == '4' ? "P44"                                     \
                                   : "P88"},
