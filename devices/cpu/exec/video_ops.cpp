// The video instructions, which compute on parts of registers (PTX ISA, "Scalar
// Video Instructions" and "SIMD Video Instructions").
// clang-format off
#include "devices/cpu/lower/video_op.hpp" // before a namespace is open
#include "devices/cpu/exec/begin.hpp"
// clang-format on

inline s64 part_of(u64 x, unsigned at, unsigned bits, bool is_signed) {
  auto value = (x >> at) & ((u64{1} << bits) - 1);
  return is_signed ? s64(value << (64 - bits)) >> (64 - bits) : s64(value);
}

// Returns a byte, a half or the word of a register, as video_form says.
inline s64 selected(u32 x, unsigned from, bool is_signed) {
  if (from == 0)
    return part_of(x, 0, 32, is_signed);
  if (from <= 4)
    return part_of(x, 8 * (from - 1), 8, is_signed);
  return part_of(x, 16 * (from - 5), 16, is_signed);
}

inline s64 clamped(s64 x, unsigned bits, bool is_signed) {
  auto low = is_signed ? -(s64{1} << (bits - 1)) : 0;
  auto high = (s64{1} << (is_signed ? bits - 1 : bits)) - 1;
  return std::clamp(x, low, high);
}

inline bool test_holds(video_test t, s64 a, s64 b) {
  switch (t) {
  case video_test::eq:
    return a == b;
  case video_test::ne:
    return a != b;
  case video_test::lt:
    return a < b;
  case video_test::le:
    return a <= b;
  case video_test::gt:
    return a > b;
  default:
    return a >= b;
  }
}

inline s64 combined(const video_form& f, s64 a, s64 b, s64 c) {
  switch (f.op) {
  case video_op::add:
    return a + b;
  case video_op::sub:
    return a - b;
  case video_op::abs_diff:
    return a < b ? b - a : a - b;
  case video_op::min:
    return std::min(a, b);
  case video_op::max:
    return std::max(a, b);
  case video_op::average:
    return (a + b + (a + b >= 0 ? 1 : 0)) >> 1;
  case video_op::shift_left:
  case video_op::shift_right: {
    auto n = f.wrap ? b & 31 : std::min<s64>(b, 32);
    return f.op == video_op::shift_left ? s64(u64(a) << n) : a >> n;
  }
  case video_op::multiply_add:
    return (a * b + c + (f.plus_one ? 1 : 0)) >> f.shift;
  default:
    return test_holds(f.test, a, b) ? 1 : 0;
  }
}

inline u32 merged(unsigned to, s64 x, u32 c) {
  auto bits = to <= 4 ? 8u : 16u;
  auto at = to <= 4 ? 8 * (to - 1) : 16 * (to - 5);
  auto mask = ((1u << bits) - 1) << at;
  return (c & ~mask) | ((u32(x) << at) & mask);
}

inline u32 video_one(const video_form& f, u32 a, u32 b, u32 c) {
  auto addend = f.to_signed ? s64{s32(c)} : s64{c};
  auto x = combined(f, selected(a, f.a_from, f.a_signed),
                    selected(b, f.b_from, f.b_signed), addend);
  auto merges = f.second == video_second::merge;
  auto bits = !merges ? 32u : f.to <= 4 ? 8u : 16u;
  if (f.saturate)
    x = clamped(x, bits, f.to_signed);
  auto narrow = f.to_signed ? s64{s32(x)} : s64{u32(x)};
  switch (f.second) {
  case video_second::add:
    return u32(x) + c;
  case video_second::min:
    return u32(std::min(narrow, addend));
  case video_second::max:
    return u32(std::max(narrow, addend));
  case video_second::merge:
    return merged(f.to, x, c);
  default:
    return u32(x);
  }
}

inline u32 video_parts(const video_form& f, u32 a, u32 b, u32 c) {
  auto bits = 32u / f.parts;
  auto both = u64{a} | u64{b} << 32;
  auto mask = (u32(u64{1} << bits) - 1);
  auto sums = f.second == video_second::add;
  auto out = c;
  for (auto i = 0u; i < f.parts; ++i) {
    if (((f.to >> i) & 1) == 0)
      continue;
    auto at = [&](u32 from) { return bits * ((from >> (4 * i)) & 7); };
    auto x = combined(f, part_of(both, at(f.a_from), bits, f.a_signed),
                      part_of(both, at(f.b_from), bits, f.b_signed), 0);
    if (f.saturate)
      x = clamped(x, bits, f.to_signed);
    out = sums
              ? out + u32(x)
              : (out & ~(mask << (bits * i))) | ((u32(x) & mask) << (bits * i));
  }
  return out;
}

inline const instr* video(warp& w, const instr* in) {
  auto f = video_form::unpack(in->imm);
  auto a = reg<u32>(w, in, fa);
  auto b = reg<u32>(w, in, fb);
  auto c = reg<u32>(w, in, fc);
  return fill<u32>(w, in, [=](unsigned l) {
    return f.parts == 1 ? video_one(f, a[l], b[l], c[l])
                        : video_parts(f, a[l], b[l], c[l]);
  });
}

// This is a table, and laid out as one.
// clang-format off
static const op_entry ops[] = {
    op_entry{"video", &video, "D444"},
};
// clang-format on

#define VGPU_PART video_ops
#include "devices/cpu/exec/end.hpp"
