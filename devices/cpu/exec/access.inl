// How a warp accesses memory: its 32 addresses together.

// How the 32 addresses lie.
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
template <class T, unsigned N, char A>
inline constexpr const char* load_signature = load_text<T, N, A>.data();
template <class T, unsigned N, char A>
inline constexpr const char* store_signature = store_text<T, N, A>.data();
