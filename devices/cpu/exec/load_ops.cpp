// Loads. A warp's 32 addresses are checked together. Neighbouring elements
// (coalesced) and a common address are the fast paths; other accesses go lane
// by lane.
#include "devices/cpu/exec/begin.hpp"
#include "devices/cpu/exec/spaces.inl"

#include "devices/cpu/exec/access.inl"
#include "devices/cpu/exec/whole.inl"

// Prefetches for a warp that reads memory in long steps, each of which enters
// another page. A processor prefetches by itself within a page only.
inline void read_ahead(warp& w, const instr* in, u64 at) {
  constexpr auto far = u64{2048};
  constexpr auto steps = u64{4};
  constexpr auto line = u64{64};
  auto& last =
      w.last_read[(reinterpret_cast<u64>(in) / 16) % w.last_read.size()];
  auto step = at - last;
  last = at;
  if (step + far > 2 * far) {
    auto next = reinterpret_cast<const char*>(at + steps * step);
    __builtin_prefetch(next);
    __builtin_prefetch(next + line);
  }
}

template <unsigned N, unsigned Bytes, bool Watched>
void fetch_vector(std::byte* to, const std::byte* from) {
  if constexpr (N > 1 && Watched)
    fetch_whole<Bytes>(to, from);
  else
    std::memcpy(to, from, Bytes);
}

// The registers into which an instruction loads.
template <class T, unsigned N>
struct destinations {
  T* of[N];

  destinations(warp& w, const instr* in) {
    for (auto i = 0u; i < N; ++i)
      of[i] = reg<T>(w, in, vector_to[i]);
  }
};

// Loads the neighbouring elements of all lanes. Returns false where they may
// not be accessed.
template <class T, unsigned N, class S>
[[gnu::always_inline]] inline bool load_row(warp& w, const instr* in, u64 first,
                                            const destinations<T, N>& d) {
  constexpr auto bytes = unsigned{sizeof(T) * N};
  constexpr auto watched = std::is_base_of_v<global_space, S>;
  auto p = S::run(w, first, bytes * lanes);
  if (p == nullptr)
    return false;
  if constexpr (watched && sizeof(T) >= 4)
    read_ahead(w, in, first);
  if constexpr (N == 1) {
    std::memcpy(d.of[0], p, bytes * lanes);
  } else {
    alignas(16) std::byte all[bytes * lanes];
    if constexpr (watched)
      fetch_row<bytes>(all, p);
    const auto* from = watched ? all : p;
    for (auto l = 0u; l < lanes; ++l)
      for (auto i = 0u; i < N; ++i)
        d.of[i][l] = peek<T>(from + l * bytes + i * sizeof(T));
  }
  return true;
}

// Loads a common address for all lanes.
template <class T, unsigned N, class S>
[[gnu::always_inline]] inline bool load_point(warp& w, u64 at,
                                              const destinations<T, N>& d) {
  constexpr auto bytes = unsigned{sizeof(T) * N};
  auto p = S::run(w, at, bytes);
  if (p == nullptr)
    return false;
  alignas(16) std::byte one[bytes];
  fetch_vector<N, bytes, std::is_base_of_v<global_space, S>>(one, p);
  for (auto i = 0u; i < N; ++i) {
    auto x = peek<T>(one + i * sizeof(T));
    for (auto l = 0u; l < lanes; ++l)
      d.of[i][l] = x;
  }
  return true;
}

// Loads for any lanes and any addresses.
template <class T, unsigned N, class S, class A>
[[gnu::always_inline]] inline const instr*
load_lanes(warp& w, const instr* in, const A* a, u64 offset,
           const destinations<T, N>& d) {
  constexpr auto bytes = unsigned{sizeof(T) * N};
  constexpr auto watched = std::is_base_of_v<global_space, S>;
  if (w.mask == all_lanes && S::near(w, a, offset, bytes)) {
    auto first = u64(A(a[0] + A(offset)));
    auto p = S::run(w, first, bytes) - first;
    T out[N][lanes];
    for (auto l = 0u; l < lanes; ++l) {
      alignas(16) std::byte one[bytes];
      fetch_vector<N, bytes, watched>(one, p + u64(A(a[l] + A(offset))));
      for (auto i = 0u; i < N; ++i)
        out[i][l] = peek<T>(one + i * sizeof(T));
    }
    for (auto i = 0u; i < N; ++i)
      std::memcpy(d.of[i], out[i], sizeof out[i]);
    return in + 1;
  }
  for (auto m = w.mask; m != 0; m &= m - 1) {
    auto l = u32(__builtin_ctz(m));
    auto x = u64(A(a[l] + A(offset)));
    auto p = x % bytes == 0 ? S::lane(w, l, x, bytes) : nullptr;
    if (p == nullptr)
      return bad_address(w, in, S::generic(x), bytes);
    alignas(16) std::byte one[bytes];
    fetch_vector<N, bytes, watched>(one, p);
    for (auto i = 0u; i < N; ++i)
      d.of[i][l] = peek<T>(one + i * sizeof(T));
  }
  return in + 1;
}

template <class T, unsigned N, class At>
const instr* load(warp& w, const instr* in) {
  using S = typename At::space;
  auto at = At{w, in};
  auto d = destinations<T, N>{w, in};
  if (w.mask == all_lanes) [[likely]] {
    auto how = at.pattern_of(sizeof(T) * N);
    if ((how == pattern::coalesced &&
         load_row<T, N, S>(w, in, at.first(), d)) ||
        (how == pattern::same && load_point<T, N, S>(w, at.first(), d)))
      return in + 1;
  }
  return at.apply([&](auto a, u64 offset) {
    return load_lanes<T, N, S>(w, in, a, offset, d);
  });
}

// This is a table, and laid out as one.
// clang-format off
#define ACCESS(T, n, N, space, S, aw)                                          \
  op_entry{"ld." space #n "." #N, &load<T, N, direct<S>>,                      \
           load_signature<T, N, aw>},
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
  op_entry{"ld.index.s32." #n "." #N, &load<T, N, indexed<s32>>,               \
           index_load_signature<T, N>},                                        \
  op_entry{"ld.index.u32." #n "." #N, &load<T, N, indexed<u32>>,               \
           index_load_signature<T, N>},

static const op_entry ops[] = {
  INDEXED(u8, 1, 1)
  INDEXED(u16, 2, 1)
  INDEXED(u32, 4, 1)
  INDEXED(u32, 4, 2)
  INDEXED(u32, 4, 4)
  INDEXED(u64, 8, 1)
  INDEXED(u64, 8, 2)
  ACCESS_ALL("global.a8.", global_space, '8')
  ACCESS_ALL("generic.a8.", generic_space, '8')
  ACCESS_ALL("shared.a4.", shared_space<u32>, '4')
  ACCESS_ALL("shared.a8.", shared_space<u64>, '8')
  ACCESS_ALL("local.a4.", local_space<u32>, '4')
  ACCESS_ALL("local.a8.", local_space<u64>, '8')
  ACCESS_ALL("param.a4.", param_space<u32>, '4')
  ACCESS_ALL("param.a8.", param_space<u64>, '8')
};
// clang-format on

#define VGPU_PART load_ops
#include "devices/cpu/exec/end.hpp"
