// Call parameters, addresses, and copies by cp.async.
#include "devices/cpu/exec/begin.hpp"
#include "devices/cpu/exec/spaces.inl"

#include "devices/cpu/exec/access.inl"

// Loads call parameters: imm is the offset of lane 0, extra the bytes of a
// lane.
template <class T, unsigned N>
const instr* load_frame(warp& w, const instr* in) {
  auto base = w.in_frame()->params + in->imm;
  auto stride = in->extra;
  for (auto i = 0u; i < N; ++i) {
    auto d = reg<T>(w, in, vector_to[i]);
    each_lane(w.mask, [&](unsigned l) {
      d[l] = peek<T>(base + l * stride + i * sizeof(T));
    });
  }
  return in + 1;
}

template <class T, unsigned N>
const instr* store_frame(warp& w, const instr* in) {
  auto base = w.in_frame()->params + in->imm;
  auto stride = in->extra;
  for (auto i = 0u; i < N; ++i) {
    auto s = reg<T>(w, in, vector_from[i]);
    each_lane(w.mask, [&](unsigned l) {
      poke<T>(base + l * stride + i * sizeof(T), s[l]);
    });
  }
  return in + 1;
}

// Loads a call parameter at a variable offset: fa is relative to the parameter
// at imm.
template <class T>
const instr* load_frame_at(warp& w, const instr* in) {
  auto base = w.in_frame()->params;
  auto a = reg<u64>(w, in, fa);
  auto d = reg<T>(w, in, fd);
  for (auto m = w.mask; m != 0; m &= m - 1) {
    auto l = u32(__builtin_ctz(m));
    // A parameter's address holds the offset of lane 0, the bytes of a lane,
    // and the offset in it.
    auto x = a[l] + u64(in->imm);
    auto offset = x & 0xffff;
    auto stride = (x >> 16) & 0xffff;
    auto first = x >> 32;
    if (offset + sizeof(T) > stride ||
        first + stride * lanes > w.in_frame()->of->param_bytes)
      return bad_address(w, in, x, 1);
    d[l] = peek<T>(base + first + l * stride + offset);
  }
  return in + 1;
}

// Returns the base of this frame's .local variables plus imm.
inline const instr* local_address(warp& w, const instr* in) {
  auto x = u64(w.in_frame()->local_base) + u64(in->imm);
  return fill<u64>(w, in, [=](unsigned) { return x; });
}

// Allocates fa bytes of .local memory, aligned to imm, until the function
// returns (PTX ISA, alloca).
inline const instr* allocate_local(warp& w, const instr* in) {
  auto size = reg<u64>(w, in, fa);
  auto most = u64{0};
  each_lane(w.mask, [&](unsigned l) { most = std::max(most, size[l]); });
  auto& f = *w.in_frame();
  auto fixed = u64{f.local_base} + (u64{f.of->local_bytes} + 15) / 16 * 16;
  auto begin = fixed + f.dynamic;
  begin = (begin + u64(in->imm) - 1) / u64(in->imm) * u64(in->imm);
  if (most > w.local_bytes || begin + most > w.local_bytes)
    return w.fail(CUDA_ERROR_ILLEGAL_ADDRESS, in, "the stack is exhausted");
  f.dynamic = u32((begin + most + 15) / 16 * 16 - fixed);
  return fill<u64>(w, in, [=](unsigned) { return begin; });
}

inline const instr* save_stack(warp& w, const instr* in) {
  auto x = u64{w.in_frame()->dynamic};
  return fill<u64>(w, in, [=](unsigned) { return x; });
}

inline const instr* restore_stack(warp& w, const instr* in) {
  auto x = reg<u64>(w, in, fa)[__builtin_ctz(w.mask)];
  auto& f = *w.in_frame();
  // Lanes that are elsewhere may still use the memory above.
  if (x <= f.dynamic && x % 16 == 0 && w.mask == f.inside)
    f.dynamic = u32(x);
  return in + 1;
}

template <u64 Aperture>
const instr* is_space(warp& w, const instr* in) {
  auto a = reg<u64>(w, in, fa);
  auto out = lane_mask{0};
  for (auto l = 0u; l < lanes; ++l)
    out |= a[l] - Aperture < aperture_bytes ? lane_bits[l] : 0u;
  set_pred(w, in, fd, out);
  return in + 1;
}

// Tells for each lane whether the address is in the block's own shared memory.
inline const instr* is_own_shared(warp& w, const instr* in) {
  auto a = reg<u64>(w, in, fa);
  auto out = lane_mask{0};
  for (auto l = 0u; l < lanes; ++l) {
    auto x = a[l] - shared_aperture;
    out |= x < aperture_bytes && w.blk.rank_of(x) == w.blk.rank ? lane_bits[l]
                                                                : 0u;
  }
  set_pred(w, in, fd, out);
  return in + 1;
}

// Converts an offset in the window of shared memory to a generic address that
// means the same to every block of the cluster.
inline const instr* shared_to_generic(warp& w, const instr* in) {
  auto a = reg<u64>(w, in, fa);
  auto own = w.blk.own_shared();
  return fill<u64>(w, in, [=](unsigned l) {
    auto x = a[l];
    return shared_aperture + (x >> block::rank_shift == 0 ? x + own : x);
  });
}

inline const instr* generic_to_shared(warp& w, const instr* in) {
  auto a = reg<u64>(w, in, fa);
  auto own = w.blk.own_shared();
  return fill<u64>(w, in, [=](unsigned l) {
    auto x = a[l] - shared_aperture;
    return (x & ~block::in_rank) == own ? x & block::in_rank : x;
  });
}

// Maps an address to the block of another rank (PTX ISA, mapa). imm is where
// the window begins in these addresses.
template <class A>
const instr* map_to_rank(warp& w, const instr* in) {
  auto a = reg<A>(w, in, fa);
  auto rank = reg<u32>(w, in, fb);
  auto base = u64(in->imm);
  return fill<A>(w, in, [&](unsigned l) {
    return A(base + w.blk.shared_of(rank[l]) +
             ((a[l] - base) & block::in_rank));
  });
}

template <class A>
const instr* rank_of(warp& w, const instr* in) {
  auto a = reg<A>(w, in, fa);
  auto base = u64(in->imm);
  return fill<u32>(w, in,
                   [&](unsigned l) { return w.blk.rank_of(a[l] - base); });
}

inline const instr* is_global(warp& w, const instr* in) {
  auto a = reg<u64>(w, in, fa);
  auto out = lane_mask{0};
  for (auto l = 0u; l < lanes; ++l)
    out |= a[l] - shared_aperture >= aperture_bytes &&
                   a[l] - local_aperture >= aperture_bytes &&
                   a[l] - param_aperture >= aperture_bytes
               ? lane_bits[l]
               : 0u;
  set_pred(w, in, fd, out);
  return in + 1;
}

// Executes cp.async at once: fa is the shared address, fb the global address,
// fc how many bytes to read (the rest is zero), and imm how many to write.
template <class A>
const instr* copy_async(warp& w, const instr* in) {
  auto to = reg<A>(w, in, fa);
  auto from = reg<u64>(w, in, fb);
  auto bytes = u64(in->imm);
  auto limit = in->o[fc] >= 0 ? reg<u32>(w, in, fc) : nullptr;
  for (auto m = w.mask; m != 0; m &= m - 1) {
    auto l = u32(__builtin_ctz(m));
    auto x = u64(to[l]) + (in->flags & 0xffff);
    auto y = from[l] + (in->flags >> 16);
    auto p = x % bytes == 0 ? shared_space<A>::run(w, x, bytes) : nullptr;
    if (p == nullptr)
      return bad_address(w, in, x, bytes);
    auto size = limit != nullptr ? std::min(u64{limit[l]}, bytes) : bytes;
    auto q =
        y % bytes == 0 && size != 0 ? global_space::run(w, y, size) : nullptr;
    if (q == nullptr && size != 0)
      return bad_address(w, in, y, bytes);
    if (size != 0)
      std::memcpy(p, q, size);
    std::memset(p + size, 0, bytes - size);
  }
  return in + 1;
}

// This is a table, and laid out as one.
// clang-format off
#define FRAME(T, n, N)                                                         \
  op_entry{"ld.frame." #n "." #N, &load_frame<T, N>,                           \
           load_signature<T, N, '.'>},                                         \
  op_entry{"st.frame." #n "." #N, &store_frame<T, N>,                          \
           store_signature<T, N, '.'>},
#define FRAME_ALL(T, n) FRAME(T, n, 1) FRAME(T, n, 2) FRAME(T, n, 4)

static const op_entry ops[] = {
  FRAME_ALL(u8, 1)
  FRAME_ALL(u16, 2)
  FRAME_ALL(u32, 4)
  FRAME_ALL(u64, 8)
  op_entry{"ld.frame.at.1", &load_frame_at<u8>, "A8"},
  op_entry{"ld.frame.at.2", &load_frame_at<u16>, "B8"},
  op_entry{"ld.frame.at.4", &load_frame_at<u32>, "D8"},
  op_entry{"ld.frame.at.8", &load_frame_at<u64>, "H8"},
  op_entry{"local.address", &local_address, "H"},
  op_entry{"alloca", &allocate_local, "H8"},
  op_entry{"stack.save", &save_stack, "H"},
  op_entry{"stack.restore", &restore_stack, ".8"},
  op_entry{"isspacep.shared", &is_own_shared, "P8"},
  op_entry{"isspacep.cluster", &is_space<shared_aperture>, "P8"},
  op_entry{"cvta.shared", &shared_to_generic, "H8"},
  op_entry{"cvta.to.shared", &generic_to_shared, "H8"},
  op_entry{"mapa.4", &map_to_rank<u32>, "D44"},
  op_entry{"mapa.8", &map_to_rank<u64>, "H84"},
  op_entry{"getctarank.4", &rank_of<u32>, "D4"},
  op_entry{"getctarank.8", &rank_of<u64>, "D8"},
  op_entry{"isspacep.local", &is_space<local_aperture>, "P8"},
  op_entry{"isspacep.param", &is_space<param_aperture>, "P8"},
  op_entry{"isspacep.global", &is_global, "P8"},
  op_entry{"cp.async.a4", &copy_async<u32>, ".48?4"},
  op_entry{"cp.async.a8", &copy_async<u64>, ".88?4"},
};
// clang-format on

#define VGPU_PART memory_ops
#include "devices/cpu/exec/end.hpp"
