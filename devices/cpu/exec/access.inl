// How a warp accesses memory with its 32 addresses.

// How the 32 addresses lie relative to each other.
enum class pattern { coalesced, same, other };

template <class A>
pattern pattern_of(const A* a, unsigned step) {
  auto first = a[0];
  auto off_line = A{0};
  auto off_point = A{0};
  for (auto l = 0u; l < lanes; ++l) {
    off_line |= A(a[l] - first) ^ A(l * step);
    off_point |= A(a[l] ^ first);
  }
  return off_line == 0    ? pattern::coalesced
         : off_point == 0 ? pattern::same
                          : pattern::other;
}

// The addresses of an access with one address for each lane in a register, plus
// an offset.
template <class S>
struct direct {
  using space = S;
  using A = typename S::address;
  const A* address;
  u64 offset;

  direct(warp& w, const instr* in)
      : address{reg<A>(w, in, fa)}, offset{u64(in->imm)} {}

  u64 first() const { return u64(A(address[0] + A(offset))); }
  pattern pattern_of(unsigned bytes) const {
    return first() % bytes == 0 ? cpu::VGPU_LEVEL::pattern_of(address, bytes)
                                : pattern::other;
  }
  /// Calls `f` with every lane's address and the common offset.
  template <class F>
  const instr* apply(F f) const {
    return f(address, offset);
  }
};

// The addresses of an access to global memory with a base, common to all lanes,
// plus an index times a size for each lane. Kernels reach elements of arrays
// this way.
template <class I>
struct indexed {
  using space = global_space;
  const I* index;
  u64 base; // of the first active lane
  s64 scale;

  indexed(warp& w, const instr* in)
      : index{reg<I>(w, in, fa)},
        base{reg<u64>(w, in, ff)[__builtin_ctz(w.mask)] + u64(in->imm)},
        scale{s32(in->extra)} {}

  u64 first() const { return base + u64(index[0] * scale); }
  pattern pattern_of(unsigned bytes) const {
    if (first() % bytes != 0)
      return pattern::other;
    auto how = cpu::VGPU_LEVEL::pattern_of(index, 1);
    // The indices of neighbours may also wrap around the largest one.
    if (how == pattern::coalesced &&
        (scale != bytes || index[lanes - 1] < index[0]))
      return pattern::other;
    return how;
  }
  template <class F>
  const instr* apply(F f) const {
    alignas(64) u64 all[lanes];
    for (auto l = 0u; l < lanes; ++l)
      all[l] = base + u64(s64(index[l]) * scale);
    return f(all, u64{0});
  }
};

inline constexpr field vector_to[] = {fd, fb, fc, fe};
inline constexpr field vector_from[] = {fb, fc, fe, ff};

template <class T, unsigned N, char A>
inline constexpr auto load_text = [] {
  auto out = std::array<char, 8>{};
  out[0] = write_letter<T>;
  out[1] = A;
  for (auto i = 1u; i < N; ++i)
    out[i + 1] = write_letter<T>;
  return out;
}();
template <class T, unsigned N, char A>
inline constexpr auto store_text = [] {
  auto out = std::array<char, 8>{};
  out[0] = '.';
  out[1] = A;
  for (auto i = 0u; i < N; ++i)
    out[i + 2] = read_letter<T>;
  return out;
}();
// The signature is that of loads and stores, with the base behind it, in ff.
template <class T, unsigned N>
inline constexpr auto index_load_text = [] {
  auto out = std::array<char, 8>{write_letter<T>, '4', '.', '.', '.', '8'};
  for (auto i = 1u; i < N; ++i)
    out[i + 1] = write_letter<T>;
  return out;
}();
template <class T, unsigned N>
inline constexpr auto index_store_text = [] {
  auto out = std::array<char, 8>{'.', '4', '.', '.', '.', '8'};
  for (auto i = 0u; i < N; ++i)
    out[i + 2] = read_letter<T>;
  return out;
}();
template <class T, unsigned N>
inline constexpr const char* index_load_signature =
    index_load_text<T, N>.data();
template <class T, unsigned N>
inline constexpr const char* index_store_signature =
    index_store_text<T, N>.data();
template <class T, unsigned N, char A>
inline constexpr const char* load_signature = load_text<T, N, A>.data();
template <class T, unsigned N, char A>
inline constexpr const char* store_signature = store_text<T, N, A>.data();
