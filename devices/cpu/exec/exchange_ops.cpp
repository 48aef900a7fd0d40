// Exchanges between the lanes of a warp: shfl, vote, match, redux.
#include "devices/cpu/exec/begin.hpp"

// Runs `body` once the lanes that `members` (field F) names are together.
template <field F, class B>
const instr* gathered(warp& w, const instr* in, B body) {
  auto next = static_cast<const instr*>(nullptr);
  if (!w.gather(reg<u32>(w, in, F), in, next))
    return next;
  body();
  return in + 1;
}

enum class shuffle { up, down, bfly, idx };

// The fields are fd result, fe predicate (optional), fa value, fb lane, fc
// clamp and segments, ff members.
template <shuffle Mode>
const instr* shfl(warp& w, const instr* in) {
  return gathered<ff>(w, in, [&] {
    auto a = reg<u32>(w, in, fa);
    auto b = reg<u32>(w, in, fb);
    auto c = reg<u32>(w, in, fc);
    u32 out[lanes];
    auto inside = lane_mask{0};
    for (auto l = 0u; l < lanes; ++l) {
      auto segments = (c[l] >> 8) & 31;
      auto clamp = c[l] & 31;
      auto highest = (l & segments) | (clamp & ~segments);
      auto lowest = l & segments;
      auto by = b[l] & 31;
      auto from = l;
      auto ok = false;
      if constexpr (Mode == shuffle::up) {
        from = l - by;
        ok = s32(from) >= s32(highest);
      } else if constexpr (Mode == shuffle::down) {
        from = l + by;
        ok = from <= highest;
      } else if constexpr (Mode == shuffle::bfly) {
        from = l ^ by;
        ok = from <= highest;
      } else {
        from = lowest | (by & ~segments & 31);
        ok = from <= highest;
      }
      out[l] = a[ok ? from & 31 : l];
      inside |= ok ? lane_bits[l] : 0u;
    }
    if (in->o[fe] >= 0)
      set_pred(w, in, fe, inside);
    fill<u32>(w, in, [&](unsigned l) { return out[l]; });
  });
}

// The fields are fa predicate, fb members. Lanes may name different groups of
// members.
template <auto F>
const instr* vote(warp& w, const instr* in) {
  return gathered<fb>(w, in, [&] {
    auto p = pred(w, in, fa);
    p = (in->flags & mod::negated) != 0 ? ~p : p;
    auto members = reg<u32>(w, in, fb);
    auto out = lane_mask{0};
    each_lane(w.mask, [&](unsigned l) {
      out |= F(p, members[l] & w.mask) ? lane_bits[l] : 0u;
    });
    set_pred(w, in, fd, out);
  });
}

inline const instr* ballot(warp& w, const instr* in) {
  return gathered<fb>(w, in, [&] {
    auto p = pred(w, in, fa);
    p = ((in->flags & mod::negated) != 0 ? ~p : p) & w.mask;
    auto members = reg<u32>(w, in, fb);
    fill<u32>(w, in, [=](unsigned l) { return p & members[l]; });
  });
}

template <class T>
const instr* match_any(warp& w, const instr* in) {
  return gathered<fb>(w, in, [&] {
    auto a = reg<T>(w, in, fa);
    auto members = reg<u32>(w, in, fb);
    u32 out[lanes] = {};
    each_lane(w.mask, [&](unsigned l) {
      for (auto k = 0u; k < lanes; ++k)
        out[l] |= a[k] == a[l] ? lane_bits[k] : 0u;
      out[l] &= members[l] & w.mask;
    });
    fill<u32>(w, in, [&](unsigned l) { return out[l]; });
  });
}

// The fields are those of match_any, and fe predicate (optional).
template <class T>
const instr* match_all(warp& w, const instr* in) {
  return gathered<fb>(w, in, [&] {
    auto a = reg<T>(w, in, fa);
    auto members = reg<u32>(w, in, fb);
    u32 out[lanes] = {};
    auto same = lane_mask{0};
    each_lane(w.mask, [&](unsigned l) {
      auto equal = true;
      each_lane(members[l] & w.mask,
                [&](unsigned k) { equal = equal && a[k] == a[l]; });
      out[l] = equal ? members[l] & w.mask : 0u;
      same |= equal ? lane_bits[l] : 0u;
    });
    if (in->o[fe] >= 0)
      set_pred(w, in, fe, same);
    fill<u32>(w, in, [&](unsigned l) { return out[l]; });
  });
}

template <class T, auto F>
const instr* redux(warp& w, const instr* in) {
  return gathered<fb>(w, in, [&] {
    auto a = reg<T>(w, in, fa);
    auto members = reg<u32>(w, in, fb);
    T out[lanes] = {};
    each_lane(w.mask, [&](unsigned l) {
      auto x = a[l];
      each_lane(members[l] & w.mask & ~lane_bits[l],
                [&](unsigned k) { x = F(x, a[k]); });
      out[l] = x;
    });
    fill<T>(w, in, [&](unsigned l) { return out[l]; });
  });
}

// Executes bar.warp.sync: fa members.
inline const instr* warp_sync(warp& w, const instr* in) {
  auto next = static_cast<const instr*>(nullptr);
  if (!w.gather(reg<u32>(w, in, fa), in, next))
    return next;
  return in + 1;
}

// Executes elect.sync: fd lane, fe predicate, fa members.
inline const instr* elect(warp& w, const instr* in) {
  auto next = static_cast<const instr*>(nullptr);
  if (!w.gather(reg<u32>(w, in, fa), in, next))
    return next;
  auto leader = u32(__builtin_ctz(w.mask));
  if (in->o[fe] >= 0)
    set_pred(w, in, fe, lane_bits[leader]);
  if (in->o[fd] < 0)
    return in + 1;
  return fill<u32>(w, in, [=](unsigned) { return leader; });
}

inline const instr* active_mask(warp& w, const instr* in) {
  auto m = w.mask;
  return fill<u32>(w, in, [=](unsigned) { return m; });
}

// This is a table, and laid out as one.
// clang-format off
static const op_entry ops[] = {
  op_entry{"shfl.up", &shfl<shuffle::up>, "D444?P4"},
  op_entry{"shfl.down", &shfl<shuffle::down>, "D444?P4"},
  op_entry{"shfl.bfly", &shfl<shuffle::bfly>, "D444?P4"},
  op_entry{"shfl.idx", &shfl<shuffle::idx>, "D444?P4"},
  op_entry{"vote.all",
           &vote<[](lane_mask p, lane_mask m) { return (p & m) == m; }>,
           "Pp4"},
  op_entry{"vote.any",
           &vote<[](lane_mask p, lane_mask m) { return (p & m) != 0; }>,
           "Pp4"},
  op_entry{"vote.uni",
           &vote<[](lane_mask p, lane_mask m) {
             return (p & m) == m || (p & m) == 0;
           }>,
           "Pp4"},
  op_entry{"vote.ballot", &ballot, "Dp4"},
  op_entry{"match.any.b32", &match_any<u32>, "D44"},
  op_entry{"match.any.b64", &match_any<u64>, "D84"},
  op_entry{"match.all.b32", &match_all<u32>, "D44.?P"},
  op_entry{"match.all.b64", &match_all<u64>, "D84.?P"},
#define REDUX(op, t, T, expr)                                                  \
  op_entry{"redux." op "." t, &redux<T, [](T a, T b) { return T(expr); }>,     \
           "D44"},
  REDUX("add", "u32", u32, a + b)
  REDUX("add", "s32", u32, a + b)
  REDUX("min", "u32", u32, a < b ? a : b)
  REDUX("min", "s32", s32, a < b ? a : b)
  REDUX("max", "u32", u32, a < b ? b : a)
  REDUX("max", "s32", s32, a < b ? b : a)
  REDUX("and", "b32", u32, a& b)
  REDUX("or", "b32", u32, a | b)
  REDUX("xor", "b32", u32, a ^ b)
#undef REDUX
  op_entry{"bar.warp.sync", &warp_sync, ".4"},
  op_entry{"elect", &elect, "?D4..?P"},
  op_entry{"activemask", &active_mask, "D"},
};
// clang-format on

#define VGPU_PART exchange_ops
#include "devices/cpu/exec/end.hpp"
