// Control flow, barriers, special registers.
#include "devices/cpu/exec/begin.hpp"

inline const instr* branch(warp& w, const instr* in) {
  return in->imm <= 0 ? w.arrive_back(in + in->imm) : w.arrive(in + in->imm);
}

inline const instr* branch_if(warp& w, const instr* in) {
  auto p = pred(w, in, fa);
  auto taken = ((in->flags & mod::negated) != 0 ? ~p : p) & w.mask;
  if (taken == 0)
    return w.arrive(in + 1);
  if (taken == w.mask)
    return branch(w, in);
  return w.diverge(taken, in + in->imm, in + 1);
}

// Comes before a label that is jumped to. Lanes may wait there.
inline const instr* join(warp& w, const instr* in) {
  return w.arrive(in + 1);
}

// Lets the lanes of a guard execute the following instructions, up to the end
// of the guard.
inline const instr* guard(warp& w, const instr* in) {
  auto p = pred(w, in, fa);
  auto on = ((in->flags & mod::negated) != 0 ? ~p : p) & w.mask;
  if (on == 0)
    return in + in->imm;
  w.saved = w.mask;
  w.mask = on;
  return in + 1;
}

inline const instr* guard_end(warp& w, const instr* in) {
  w.mask = w.saved;
  return in + 1;
}

// Jumps into the table of branches that follows. Lanes of one index jump there,
// and the remaining lanes execute this instruction again.
inline const instr* branch_indexed(warp& w, const instr* in) {
  auto a = reg<u32>(w, in, fa);
  auto first = a[__builtin_ctz(w.mask)];
  if (first >= u64(in->imm))
    return w.fail(CUDA_ERROR_ILLEGAL_INSTRUCTION, in,
                  "brx.idx has an index outside its targets");
  auto taken = lane_mask{0};
  each_lane(w.mask,
            [&](unsigned l) { taken |= a[l] == first ? lane_bits[l] : 0u; });
  if (taken == w.mask)
    return in + 1 + first;
  return w.diverge(taken, in + 1 + first, in);
}

inline const instr* exit_thread(warp& w, const instr*) {
  return w.exit_lanes();
}

inline const instr* give_back(warp& w, const instr* in) {
  return w.give_back(in);
}

inline const instr* call_direct(warp& w, const instr* in) {
  auto& of = *w.blk.in.of;
  auto& site = of.calls[in->extra];
  return w.call(of.functions[u32(site.callee)], site, in + 1);
}

inline const instr* call_indirect(warp& w, const instr* in) {
  auto a = reg<u64>(w, in, fa);
  auto& of = *w.blk.in.of;
  auto& site = of.calls[in->extra];
  auto first = a[__builtin_ctz(w.mask)];
  auto number = (first - function_base) / function_stride;
  if (first < function_base || number >= of.functions.size() ||
      of.functions[number].entry ||
      of.functions[number].parameters.size() != site.arguments.size() ||
      of.functions[number].results.size() < site.results.size())
    return w.fail(CUDA_ERROR_ILLEGAL_INSTRUCTION, in,
                  "an indirect call goes to no function of this shape");
  auto taken = lane_mask{0};
  each_lane(w.mask,
            [&](unsigned l) { taken |= a[l] == first ? lane_bits[l] : 0u; });
  w.leave_behind(w.mask & ~taken, in);
  return w.call(of.functions[number], site, in + 1);
}

inline const instr* call_of_system(warp& w, const instr* in) {
  return system_call_of(w, in);
}

inline const instr* trap(warp& w, const instr* in) {
  return w.fail(CUDA_ERROR_LAUNCH_FAILED, in, "trap");
}

inline const instr* nothing(warp&, const instr* in) {
  return in + 1;
}

// Comes before an instruction that reads memory which other threads may change.
inline const instr* may_spin(warp& w, const instr* in) {
  w.may_spin();
  return in + 1;
}

inline const instr* fence(warp&, const instr* in) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  return in + 1;
}

inline const instr* nanosleep(warp& w, const instr* in) {
  auto a = reg<u32>(w, in, fa);
  auto least = ~u32{0};
  each_lane(w.mask, [&](unsigned l) { least = std::min(least, u32(a[l])); });
  return w.sleep(std::chrono::nanoseconds{least}, in + 1);
}

inline u32 leading(warp& w, const instr* in, field f) {
  return reg<u32>(w, in, f)[__builtin_ctz(w.mask)];
}

// The fields are fa: the barrier's number, fb (optional): its count.
template <bool Waits>
const instr* block_barrier(warp& w, const instr* in) {
  auto which = leading(w, in, fa);
  auto expected = in->o[fb] >= 0 ? leading(w, in, fb) : 0u;
  if (which >= block::own_barriers)
    return w.fail(CUDA_ERROR_ILLEGAL_INSTRUCTION, in,
                  "a barrier's number must be below 16");
  // An explicit count is in whole warps, even where the last warp is not full.
  auto count = expected != 0 && w.mask == w.live
                   ? u32{lanes}
                   : u32(__builtin_popcount(w.mask));
  if (in->o[fc] >= 0) { // bar.red
    auto p = pred(w, in, fc);
    p = ((in->flags & mod::negated) != 0 ? ~p : p) & w.mask;
    w.blk.barriers[which].votes += u32(__builtin_popcount(p));
    w.blk.barriers[which].voters_now += u32(__builtin_popcount(w.mask));
  }
  if constexpr (Waits)
    return w.wait_at_barrier(which, count, expected, in + 1);
  w.blk.arrive(which, count, expected);
  return in + 1;
}

// Returns the result of bar.red, after the wait.
inline const instr* barrier_popc(warp& w, const instr* in) {
  auto x = w.blk.barriers[leading(w, in, fa)].result;
  return fill<u32>(w, in, [=](unsigned) { return x; });
}

inline const instr* barrier_and(warp& w, const instr* in) {
  auto& b = w.blk.barriers[leading(w, in, fa)];
  set_pred(w, in, fd, b.result == b.voters ? all_lanes : 0u);
  return in + 1;
}

inline const instr* barrier_or(warp& w, const instr* in) {
  auto& b = w.blk.barriers[leading(w, in, fa)];
  set_pred(w, in, fd, b.result != 0 ? all_lanes : 0u);
  return in + 1;
}

inline const instr* cluster_arrive(warp& w, const instr* in) {
  w.blk.unit.arrive(w);
  return in + 1;
}

inline const instr* cluster_wait(warp& w, const instr* in) {
  return w.wait_for_cluster(in + 1);
}

inline const instr* explicit_cluster(warp& w, const instr* in) {
  set_pred(w, in, fd, w.blk.in.explicit_cluster ? all_lanes : 0u);
  return in + 1;
}

// Reads a special register that differs between lanes.
template <auto F>
const instr* special_of_lane(warp& w, const instr* in) {
  return fill<u32>(w, in, [&](unsigned l) { return u32(F(w, l)); });
}

// Reads a special register that is the same for all lanes. It is read once, so
// that all lanes of a warp see the same clock.
template <class T, auto F>
const instr* special(warp& w, const instr* in) {
  auto x = T(F(w));
  return fill<T>(w, in, [=](unsigned) { return x; });
}

// This is a table, and laid out as one.
// clang-format off
#define SPECIAL_OF_LANE(name, expr)                                            \
  op_entry{"special." name,                                                    \
           &special_of_lane<[]([[maybe_unused]] warp& w,                       \
                               unsigned l) { return (expr); }>,                \
           "D"},
#define SPECIAL(name, expr)                                                    \
  op_entry{"special." name,                                                    \
           &special<u32, []([[maybe_unused]] warp& w) { return (expr); }>,     \
           "D"},
#define SPECIAL64(name, expr)                                                  \
  op_entry{"special." name,                                                    \
           &special<u64, []([[maybe_unused]] warp& w) { return (expr); }>,     \
           "H"},

static const op_entry ops[] = {
  op_entry{"bra", &branch, ""},
  op_entry{"bra.if", &branch_if, ".p"},
  op_entry{"join", &join, ""},
  op_entry{"guard", &guard, ".p"},
  op_entry{"guard.end", &guard_end, ""},
  op_entry{"brx.idx", &branch_indexed, ".4"},
  op_entry{"exit", &exit_thread, ""},
  op_entry{"ret", &give_back, ""},
  op_entry{"call", &call_direct, ""},
  op_entry{"call.indirect", &call_indirect, ".8"},
  op_entry{"call.system", &call_of_system, ""},
  op_entry{"trap", &trap, ""},
  op_entry{"nop", &nothing, ""},
  op_entry{"fence", &fence, ""},
  op_entry{"may.spin", &may_spin, ""},
  op_entry{"nanosleep", &nanosleep, ".4"},
  op_entry{"bar.sync", &block_barrier<true>, ".4?4?p"},
  op_entry{"bar.arrive", &block_barrier<false>, ".4?4"},
  op_entry{"barrier.cluster.arrive", &cluster_arrive, ""},
  op_entry{"barrier.cluster.wait", &cluster_wait, ""},
  op_entry{"is.explicit.cluster", &explicit_cluster, "P"},
  op_entry{"bar.result.popc", &barrier_popc, "D4"},
  op_entry{"bar.result.and", &barrier_and, "P4"},
  op_entry{"bar.result.or", &barrier_or, "P4"},
  SPECIAL_OF_LANE("tid.x", w.tid[0][l])
  SPECIAL_OF_LANE("tid.y", w.tid[1][l])
  SPECIAL_OF_LANE("tid.z", w.tid[2][l])
  SPECIAL("ntid.x", w.blk.in.threads.x)
  SPECIAL("ntid.y", w.blk.in.threads.y)
  SPECIAL("ntid.z", w.blk.in.threads.z)
  SPECIAL("ctaid.x", w.blk.index.x)
  SPECIAL("ctaid.y", w.blk.index.y)
  SPECIAL("ctaid.z", w.blk.index.z)
  SPECIAL("nctaid.x", w.blk.in.blocks.x)
  SPECIAL("nctaid.y", w.blk.in.blocks.y)
  SPECIAL("nctaid.z", w.blk.in.blocks.z)
  SPECIAL_OF_LANE("laneid", l)
  SPECIAL("warpid", w.index)
  SPECIAL("nwarpid", 64)
  SPECIAL("smid", w.blk.processor)
  SPECIAL("nsmid", std::max(1u, w.blk.in.processors))
  SPECIAL_OF_LANE("lanemask_eq", 1u << l)
  SPECIAL_OF_LANE("lanemask_lt", (1u << l) - 1)
  SPECIAL_OF_LANE("lanemask_le", (2u << l) - 1)
  SPECIAL_OF_LANE("lanemask_gt", ~((2u << l) - 1))
  SPECIAL_OF_LANE("lanemask_ge", ~((1u << l) - 1))
  SPECIAL("clock", __builtin_ia32_rdtsc())
  SPECIAL("clock_hi", __builtin_ia32_rdtsc() >> 32)
  SPECIAL("globaltimer_lo", nanoseconds())
  SPECIAL("globaltimer_hi", nanoseconds() >> 32)
  SPECIAL("envreg1", w.blk.in.workspace() >> 32)
  SPECIAL("envreg2", w.blk.in.workspace())
  SPECIAL("dynamic_smem_size", w.blk.in.dynamic_shared)
  SPECIAL("dynamic_shared_base", w.blk.in.entry->static_shared)
  SPECIAL("total_smem_size",
          w.blk.in.entry->static_shared + w.blk.in.dynamic_shared)
  SPECIAL("aggr_smem_size", w.shared_bytes)
  SPECIAL("clusterid.x", w.blk.unit.index.x)
  SPECIAL("clusterid.y", w.blk.unit.index.y)
  SPECIAL("clusterid.z", w.blk.unit.index.z)
  SPECIAL("nclusterid.x", w.blk.in.blocks.x / w.blk.in.cluster.x)
  SPECIAL("nclusterid.y", w.blk.in.blocks.y / w.blk.in.cluster.y)
  SPECIAL("nclusterid.z", w.blk.in.blocks.z / w.blk.in.cluster.z)
  SPECIAL("cluster_ctaid.x", w.blk.in_cluster.x)
  SPECIAL("cluster_ctaid.y", w.blk.in_cluster.y)
  SPECIAL("cluster_ctaid.z", w.blk.in_cluster.z)
  SPECIAL("cluster_nctaid.x", w.blk.in.cluster.x)
  SPECIAL("cluster_nctaid.y", w.blk.in.cluster.y)
  SPECIAL("cluster_nctaid.z", w.blk.in.cluster.z)
  SPECIAL("clusterid.w", 0)
  SPECIAL("nclusterid.w", 1)
  SPECIAL("cluster_ctaid.w", 0)
  SPECIAL("cluster_nctaid.w", 1)
  SPECIAL("tid.w", 0)
  SPECIAL("ntid.w", 1)
  SPECIAL("ctaid.w", 0)
  SPECIAL("nctaid.w", 1)
  SPECIAL("reserved_smem_offset_begin", w.blk.reserved_shared)
  SPECIAL("reserved_smem_offset_end",
          w.blk.reserved_shared + w.blk.in.of->reserved_shared)
  SPECIAL("reserved_smem_offset_cap", w.blk.in.of->reserved_shared)
  SPECIAL("reserved_smem_offset_0", w.blk.reserved_shared)
  SPECIAL("reserved_smem_offset_1", w.blk.reserved_shared + 256)
  SPECIAL("pm0", 0)
  SPECIAL("pm1", 0)
  SPECIAL("pm2", 0)
  SPECIAL("pm3", 0)
  SPECIAL("cluster_ctarank", w.blk.rank)
  SPECIAL("cluster_nctarank", w.blk.unit.size())
  SPECIAL64("clock64", __builtin_ia32_rdtsc())
  SPECIAL64("globaltimer", nanoseconds())
  SPECIAL64("gridid", w.blk.in.number)
};
// clang-format on

#define VGPU_PART control_ops
#include "devices/cpu/exec/end.hpp"
