// Memory barriers (mbarrier) and the bulk copies that report to them. A copy is
// done when it is issued, so it reports at once.
#include "devices/cpu/exec/begin.hpp"
#include "devices/cpu/exec/numbers.inl"
#include "devices/cpu/exec/spaces.inl"

// The 64 bits of an mbarrier, whose layout the PTX ISA leaves to the device.
struct memory_barrier {
  u64 expected; // arrivals in a phase
  u64 pending;  // arrivals that this phase still awaits
  s64 bytes;    // bytes that copies have yet to write
  bool phase;

  static constexpr u64 mask = 0xfffff;

  static memory_barrier of(u64 x) {
    return {x & mask, (x >> 20) & mask, s64(x << 1) >> 41, (x >> 63) != 0};
  }
  u64 bits() const {
    return (expected & mask) | ((pending & mask) << 20) |
           ((u64(bytes) & 0x7fffff) << 40) | (u64{phase} << 63);
  }
  void settle() {
    if (pending != 0 || bytes != 0)
      return;
    phase = !phase;
    pending = expected;
  }
};

inline std::byte* barrier_at(warp& w, unsigned l, u64 address) {
  return address % 8 == 0 ? w.blk.resolve(w, l, address, 8) : nullptr;
}

// The fields are fd: the state before, fa: address, fb: a count or bytes, fc: a
// state. F changes the barrier and returns the new fd.
template <auto F>
const instr* on_barrier(warp& w, const instr* in) {
  auto a = reg<u64>(w, in, fa);
  auto b = in->o[fb] >= 0 ? reg<u32>(w, in, fb) : nullptr;
  auto d = in->o[fd] >= 0 ? reg<u64>(w, in, fd) : nullptr;
  for (auto m = w.mask; m != 0; m &= m - 1) {
    auto l = u32(__builtin_ctz(m));
    auto p = barrier_at(w, l, a[l]);
    if (p == nullptr)
      return bad_address(w, in, a[l], 8);
    auto old = peek<u64>(p);
    auto x = memory_barrier::of(old);
    F(x, b != nullptr ? b[l] : 1u);
    poke<u64>(p, x.bits());
    if (d != nullptr)
      d[l] = old;
  }
  return in + 1;
}

// The fields are fd: whether the phase is complete, fb: its state or parity.
template <bool Parity, bool Waits>
const instr* phase_over(warp& w, const instr* in) {
  auto a = reg<u64>(w, in, fa);
  auto out = lane_mask{0};
  for (auto m = w.mask; m != 0; m &= m - 1) {
    auto l = u32(__builtin_ctz(m));
    auto p = barrier_at(w, l, a[l]);
    if (p == nullptr)
      return bad_address(w, in, a[l], 8);
    auto now = memory_barrier::of(peek<u64>(p)).phase;
    auto then = Parity ? (reg<u32>(w, in, fb)[l] & 1) != 0
                       : memory_barrier::of(reg<u64>(w, in, fb)[l]).phase;
    out |= now != then ? lane_bits[l] : 0u;
  }
  set_pred(w, in, fd, out);
  w.may_spin();
  // Waiting lanes yield to the lanes that have yet to arrive.
  if (Waits && out != w.mask)
    return w.preempt(in + 1);
  return in + 1;
}

inline const instr* pending_count(warp& w, const instr* in) {
  auto a = reg<u64>(w, in, fa);
  return fill<u32>(
      w, in, [=](unsigned l) { return u32(memory_barrier::of(a[l]).pending); });
}

// -- bulk copies --------------------------------------------------------------

template <class T, class F>
void combine(std::byte* to, const std::byte* from, u64 bytes, F f) {
  for (auto at = u64{0}; at + sizeof(T) <= bytes; at += sizeof(T)) {
    auto p = reinterpret_cast<T*>(to + at);
    auto x = peek<T>(from + at);
    auto old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(p, &old, T(f(old, x)), true,
                                        __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
    }
  }
}

template <class T, class S>
void combine_integers(bulk_op op, std::byte* to, const std::byte* from,
                      u64 bytes) {
  switch (op) {
  case bulk_op::add:
    return combine<T>(to, from, bytes, [](T a, T b) { return a + b; });
  case bulk_op::min:
    return combine<T>(to, from, bytes,
                      [](T a, T b) { return S(a) < S(b) ? a : b; });
  case bulk_op::max:
    return combine<T>(to, from, bytes,
                      [](T a, T b) { return S(a) < S(b) ? b : a; });
  case bulk_op::inc:
    return combine<T>(to, from, bytes,
                      [](T a, T b) { return a >= b ? T(0) : T(a + 1); });
  case bulk_op::dec:
    return combine<T>(to, from, bytes,
                      [](T a, T b) { return a == 0 || a > b ? b : T(a - 1); });
  case bulk_op::bit_and:
    return combine<T>(to, from, bytes, [](T a, T b) { return a & b; });
  case bulk_op::bit_or:
    return combine<T>(to, from, bytes, [](T a, T b) { return a | b; });
  default:
    return combine<T>(to, from, bytes, [](T a, T b) { return a ^ b; });
  }
}

template <class T, class Load, class Store>
void combine_reals(bulk_op op, std::byte* to, const std::byte* from, u64 bytes,
                   Load load, Store store) {
  combine<T>(to, from, bytes, [&](T a, T b) {
    auto x = load(a);
    auto y = load(b);
    return store(op == bulk_op::add   ? x + y
                 : op == bulk_op::min ? minimum(x, y)
                                      : maximum(x, y));
  });
}

inline void combine_as(bulk_op op, bulk_type t, std::byte* to,
                       const std::byte* from, u64 bytes) {
  switch (t) {
  case bulk_type::u32:
    return combine_integers<u32, u32>(op, to, from, bytes);
  case bulk_type::s32:
    return combine_integers<u32, s32>(op, to, from, bytes);
  case bulk_type::u64:
    return combine_integers<u64, u64>(op, to, from, bytes);
  case bulk_type::s64:
    return combine_integers<u64, s64>(op, to, from, bytes);
  case bulk_type::f16:
    return combine_reals<u16>(
        op, to, from, bytes, [](u16 x) { return half::load(x); },
        [](f64 x) { return half::store(x, rounding::nearest); });
  case bulk_type::bf16:
    return combine_reals<u16>(
        op, to, from, bytes, [](u16 x) { return bfloat::load(x); },
        [](f64 x) { return bfloat::store(x, rounding::nearest); });
  case bulk_type::f32:
    return combine_reals<u32>(
        op, to, from, bytes, [](u32 x) { return std::bit_cast<f32>(x); },
        [](f32 x) { return std::bit_cast<u32>(x); });
  case bulk_type::f64:
    return combine_reals<u64>(
        op, to, from, bytes, [](u64 x) { return std::bit_cast<f64>(x); },
        [](f64 x) { return std::bit_cast<u64>(x); });
  }
}

// Returns the address of the place in the shared memory of the block with this
// rank that corresponds to `address`.
inline u64 of_rank(const warp& w, u64 address, u32 rank) {
  return shared_aperture + w.blk.shared_of(rank) +
         ((address - shared_aperture) & block::in_rank);
}

// Copies for one lane to one place, and reports to the mbarrier at `at` if the
// instruction names one.
inline const instr* copy_for(warp& w, const instr* in, unsigned l, u64 to,
                             u64 from, u64 bytes, u64 at) {
  auto p = to % 16 == 0 ? w.blk.resolve(w, l, to, bytes) : nullptr;
  if (p == nullptr)
    return bad_address(w, in, to, 16);
  auto q = from % 16 == 0 ? w.blk.resolve(w, l, from, bytes) : nullptr;
  if (q == nullptr)
    return bad_address(w, in, from, 16);
  if (in->imm == 0)
    std::memmove(p, q, bytes);
  else
    combine_as(bulk_op(in->imm & 15), bulk_type(in->imm >> 4), p, q, bytes);
  if (in->o[fe] < 0)
    return in + 1;
  auto b = barrier_at(w, l, at);
  if (b == nullptr)
    return bad_address(w, in, at, 8);
  auto x = memory_barrier::of(peek<u64>(b));
  x.bytes -= s64(bytes);
  x.settle();
  poke<u64>(b, x.bits());
  return in + 1;
}

// The fields are fa: destination, fb: source, fc: bytes, fe (optional): the
// mbarrier to report to, ff (optional): the ranks of the blocks that receive
// the copy, each at the same place. imm 0 copies; otherwise it names the
// operation with the old values (devices/cpu/lower/bulk_op.hpp).
inline const instr* bulk_copy(warp& w, const instr* in) {
  auto to = reg<u64>(w, in, fa);
  auto from = reg<u64>(w, in, fb);
  auto count = reg<u32>(w, in, fc);
  auto tell = in->o[fe] >= 0 ? reg<u64>(w, in, fe) : nullptr;
  auto masks = in->o[ff] >= 0 ? reg<u16>(w, in, ff) : nullptr;
  for (auto m = w.mask; m != 0; m &= m - 1) {
    auto l = u32(__builtin_ctz(m));
    auto bytes = u64{count[l]};
    if (bytes == 0)
      continue;
    if (bytes % 16 != 0)
      return w.fail(CUDA_ERROR_ILLEGAL_INSTRUCTION, in,
                    "a bulk copy's size is not a multiple of 16");
    auto at = tell != nullptr ? tell[l] : 0;
    if (masks == nullptr) {
      if (copy_for(w, in, l, to[l], from[l], bytes, at) == nullptr)
        return nullptr;
      continue;
    }
    for (auto ranks = u32{masks[l]}; ranks != 0; ranks &= ranks - 1) {
      auto r = u32(__builtin_ctz(ranks));
      if (copy_for(w, in, l, of_rank(w, to[l], r), from[l], bytes,
                   of_rank(w, at, r)) == nullptr)
        return nullptr;
    }
  }
  return in + 1;
}

// This is a table, and laid out as one.
// clang-format off
static const op_entry ops[] = {
    op_entry{
        "mbarrier.init", &on_barrier<[](memory_barrier& x, u32 n) {
          x = {n & memory_barrier::mask, n & memory_barrier::mask, 0, false};
        }>,
        ".84"},
    op_entry{"mbarrier.arrive", &on_barrier<[](memory_barrier& x, u32 n) {
               x.pending -= std::min(x.pending, u64{n});
               x.settle();
             }>,
             "?H8?4"},
    op_entry{"mbarrier.arrive.drop", &on_barrier<[](memory_barrier& x, u32 n) {
               x.expected -= std::min(x.expected, u64{n});
               x.pending -= std::min(x.pending, u64{n});
               x.settle();
             }>,
             "?H8?4"},
    op_entry{"mbarrier.expect",
             &on_barrier<[](memory_barrier& x, u32 n) { x.bytes += n; }>,
             ".84"},
    op_entry{"mbarrier.complete", &on_barrier<[](memory_barrier& x, u32 n) {
               x.bytes -= n;
               x.settle();
             }>,
             ".84"},
    op_entry{"mbarrier.test", &phase_over<false, false>, "P88"},
    op_entry{"mbarrier.test.parity", &phase_over<true, false>, "P84"},
    op_entry{"mbarrier.try", &phase_over<false, true>, "P88"},
    op_entry{"mbarrier.try.parity", &phase_over<true, true>, "P84"},
    op_entry{"mbarrier.pending", &pending_count, "D8"},
    op_entry{"cp.bulk", &bulk_copy, ".884?8?2"},
};
// clang-format on

#define VGPU_PART async_ops
#include "devices/cpu/exec/end.hpp"
