// Stores. A warp's 32 addresses are checked together. Neighbouring elements
// (coalesced) and a common address are the fast paths; other accesses go lane
// by lane.
#include "devices/cpu/exec/begin.hpp"
#include "devices/cpu/exec/spaces.inl"

#include "devices/cpu/exec/access.inl"
#include "devices/cpu/exec/whole.inl"

// Stores the vector of one lane.
template <class T, unsigned N, bool Watched>
void put_vector(std::byte* to, const T* const* s, unsigned l) {
  alignas(16) std::byte one[sizeof(T) * N];
  for (auto i = 0u; i < N; ++i)
    poke<T>(one + i * sizeof(T), s[i][l]);
  if constexpr (N > 1 && Watched)
    put_whole<sizeof(T) * N>(to, one);
  else
    std::memcpy(to, one, sizeof one);
}

// The registers from which an instruction stores.
template <class T, unsigned N>
struct sources {
  const T* of[N];

  sources(warp& w, const instr* in) {
    for (auto i = 0u; i < N; ++i)
      of[i] = reg<T>(w, in, vector_from[i]);
  }
};

// Stores the neighbouring elements of all lanes. Returns false where they may
// not be accessed.
template <class T, unsigned N, class S>
[[gnu::always_inline]] inline bool store_row(warp& w, u64 first,
                                             const sources<T, N>& s) {
  constexpr auto bytes = unsigned{sizeof(T) * N};
  constexpr auto watched = std::is_base_of_v<global_space, S>;
  auto p = S::run(w, first, bytes * lanes);
  if (p == nullptr)
    return false;
  if constexpr (N == 1) {
    std::memcpy(p, s.of[0], bytes * lanes);
  } else {
    alignas(16) std::byte all[bytes * lanes];
    auto* to = watched ? all : p;
    for (auto l = 0u; l < lanes; ++l)
      for (auto i = 0u; i < N; ++i)
        poke<T>(to + l * bytes + i * sizeof(T), s.of[i][l]);
    if constexpr (watched)
      put_row<bytes>(p, all);
  }
  return true;
}

// Stores for any lanes and any addresses. Where several lanes write one
// element, the last lane wins.
template <class T, unsigned N, class S, class A>
[[gnu::always_inline]] inline const instr* store_lanes(warp& w, const instr* in,
                                                       const A* a, u64 offset,
                                                       const sources<T, N>& s) {
  constexpr auto bytes = unsigned{sizeof(T) * N};
  constexpr auto watched = std::is_base_of_v<global_space, S>;
  if (w.mask == all_lanes && S::near(w, a, offset, bytes)) {
    auto first = u64(A(a[0] + A(offset)));
    auto p = S::run(w, first, bytes) - first;
    for (auto l = 0u; l < lanes; ++l)
      put_vector<T, N, watched>(p + u64(A(a[l] + A(offset))), s.of, l);
    return in + 1;
  }
  for (auto m = w.mask; m != 0; m &= m - 1) {
    auto l = u32(__builtin_ctz(m));
    auto x = u64(A(a[l] + A(offset)));
    auto p = x % bytes == 0 ? S::lane(w, l, x, bytes) : nullptr;
    if (p == nullptr)
      return bad_address(w, in, S::generic(x), bytes);
    put_vector<T, N, watched>(p, s.of, l);
  }
  return in + 1;
}

template <class T, unsigned N, class At>
const instr* store(warp& w, const instr* in) {
  using S = typename At::space;
  auto at = At{w, in};
  auto s = sources<T, N>{w, in};
  if (w.mask == all_lanes &&
      at.pattern_of(sizeof(T) * N) == pattern::coalesced &&
      store_row<T, N, S>(w, at.first(), s)) [[likely]]
    return in + 1;
  return at.apply([&](auto a, u64 offset) {
    return store_lanes<T, N, S>(w, in, a, offset, s);
  });
}

// This is a table, and laid out as one.
// clang-format off
#define ACCESS(T, n, N, space, S, aw)                                          \
  op_entry{"st." space #n "." #N, &store<T, N, direct<S>>,                     \
           store_signature<T, N, aw>},
#define ACCESS_ALL(space, S, aw)                                               \
  ACCESS(u8, 1, 1, space, S, aw)                                               \
  ACCESS(u8, 1, 2, space, S, aw)                                               \
  ACCESS(u8, 1, 4, space, S, aw)                                               \
  ACCESS(u16, 2, 1, space, S, aw)                                              \
  ACCESS(u16, 2, 2, space, S, aw)                                              \
  ACCESS(u16, 2, 4, space, S, aw)                                              \
  ACCESS(u32, 4, 1, space, S, aw)                                              \
  ACCESS(u32, 4, 2, space, S, aw)                                              \
  ACCESS(u32, 4, 4, space, S, aw)                                              \
  ACCESS(u64, 8, 1, space, S, aw)                                              \
  ACCESS(u64, 8, 2, space, S, aw)                                              \
  ACCESS(u64, 8, 4, space, S, aw)

#define INDEXED(T, n, N)                                                       \
  op_entry{"st.index.s32." #n "." #N, &store<T, N, indexed<s32>>,              \
           index_store_signature<T, N>},                                       \
  op_entry{"st.index.u32." #n "." #N, &store<T, N, indexed<u32>>,              \
           index_store_signature<T, N>},

static const op_entry ops[] = {
  INDEXED(u8, 1, 1)
  INDEXED(u16, 2, 1)
  INDEXED(u32, 4, 1)
  INDEXED(u32, 4, 2)
  INDEXED(u64, 8, 1)
  INDEXED(u64, 8, 2)
  ACCESS_ALL("global.a8.", global_space, '8')
  ACCESS_ALL("generic.a8.", generic_space, '8')
  ACCESS_ALL("shared.a4.", shared_space<u32>, '4')
  ACCESS_ALL("shared.a8.", shared_space<u64>, '8')
  ACCESS_ALL("local.a4.", local_space<u32>, '4')
  ACCESS_ALL("local.a8.", local_space<u64>, '8')
};
// clang-format on

#define VGPU_PART store_ops
#include "devices/cpu/exec/end.hpp"
