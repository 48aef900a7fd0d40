// Loads and stores. A warp's 32 addresses are checked together: neighbouring
// elements (coalesced) and one address for all are the fast ways; the rest
// goes lane by lane.

inline const instr* bad_address(warp& w, const instr* in, u64 address,
                                u64 bytes) {
  char text[96];
  if (address % bytes != 0) {
    std::snprintf(text, sizeof text,
                  "address 0x%llx is not a multiple of %llu",
                  static_cast<unsigned long long>(address),
                  static_cast<unsigned long long>(bytes));
    return w.fail(CUDA_ERROR_MISALIGNED_ADDRESS, in, text);
  }
  std::snprintf(text, sizeof text, "illegal address 0x%llx (%llu bytes)",
                static_cast<unsigned long long>(address),
                static_cast<unsigned long long>(bytes));
  return w.fail(CUDA_ERROR_ILLEGAL_ADDRESS, in, text);
}

// A space turns addresses into host memory:
//   run(w, address, bytes)  of consecutive memory, the same for all lanes
//   lane(w, l, address, bytes)  of one lane
//   near(w, a, offset, bytes)  whether all 32 may be touched, with no further
//     check, at run's address of a[0] plus their distance from it

struct global_space {
  using address = u64;
  static std::byte* run(warp& w, u64 a, u64 bytes) {
    return w.blk.in.memory->usable(a, bytes)
             ? reinterpret_cast<std::byte*>(a)
             : nullptr;
  }
  static std::byte* lane(warp& w, unsigned, u64 a, u64 bytes) {
    return run(w, a, bytes);
  }
  static bool near(warp& w, const u64* a, u64 offset, u64 bytes) {
    auto first = a[0] + offset;
    auto spread = u64{0};
    auto low = u64{0};
    for (auto l = 0u; l < lanes; ++l) {
      spread |= (a[l] + offset) ^ first;
      low |= a[l] + offset;
    }
    return (spread >> memory_map::granule_shift) == 0
           && (low & (bytes - 1)) == 0
           && w.blk.in.memory->in_granule(first);
  }
};

// Generic addresses may be of any space; all the fast ways are global memory.
struct generic_space : global_space {
  static std::byte* lane(warp& w, unsigned l, u64 a, u64 bytes) {
    return w.blk.resolve(w, l, a, bytes);
  }
};

template <class A>
struct shared_space {
  using address = A;
  static std::byte* run(warp& w, u64 a, u64 bytes) {
    return a < w.shared_bytes && bytes <= w.shared_bytes - a ? w.shared + a
                                                             : nullptr;
  }
  static std::byte* lane(warp& w, unsigned, u64 a, u64 bytes) {
    return run(w, a, bytes);
  }
  static bool near(warp& w, const A* a, u64 offset, u64 bytes) {
    auto highest = A{0};
    auto low = A{0};
    for (auto l = 0u; l < lanes; ++l) {
      auto x = A(a[l] + A(offset));
      highest = highest < x ? x : highest;
      low |= x;
    }
    return (low & (bytes - 1)) == 0 && run(w, highest, bytes) != nullptr;
  }
};

template <class A>
struct local_space {
  using address = A;
  static std::byte* run(warp&, u64, u64) { return nullptr; }
  static std::byte* lane(warp& w, unsigned l, u64 a, u64 bytes) {
    return a < w.local_bytes && bytes <= w.local_bytes - a
             ? w.local + l * w.local_bytes + a
             : nullptr;
  }
  static bool near(warp&, const A*, u64, u64) { return false; }
};

// Kernel parameters, by their offset.
template <class A>
struct param_space {
  using address = A;
  static std::byte* run(warp& w, u64 a, u64 bytes) {
    auto& block = w.blk.in.parameters;
    return a < block.size() && bytes <= block.size() - a
             ? const_cast<std::byte*>(block.data()) + a
             : nullptr;
  }
  static std::byte* lane(warp& w, unsigned, u64 a, u64 bytes) {
    return run(w, a, bytes);
  }
  static bool near(warp&, const A*, u64, u64) { return false; }
};

template <class T>
T peek(const std::byte* p) {
  auto x = T{};
  std::memcpy(&x, p, sizeof x);
  return x;
}

template <class T>
void poke(std::byte* p, T x) {
  std::memcpy(p, &x, sizeof x);
}

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

template <class T, unsigned N, class S>
const instr* load(warp& w, const instr* in) {
  using A = typename S::address;
  constexpr auto bytes = u64{sizeof(T) * N};
  auto a = reg<A>(w, in, fa);
  auto offset = u64(in->imm);
  T* d[N];
  for (auto i = 0u; i < N; ++i)
    d[i] = reg<T>(w, in, vector_to[i]);
  if (w.mask == all_lanes) [[likely]] {
    auto first = u64(A(a[0] + A(offset)));
    auto how = first % bytes == 0 ? pattern_of(a, bytes) : pattern::other;
    if (how == pattern::coalesced) {
      if (auto p = S::run(w, first, bytes * lanes)) {
        if constexpr (N == 1) {
          std::memcpy(d[0], p, bytes * lanes);
        } else {
          for (auto l = 0u; l < lanes; ++l)
            for (auto i = 0u; i < N; ++i)
              d[i][l] = peek<T>(p + l * bytes + i * sizeof(T));
        }
        return in + 1;
      }
    } else if (how == pattern::same) {
      if (auto p = S::run(w, first, bytes)) {
        for (auto i = 0u; i < N; ++i) {
          auto x = peek<T>(p + i * sizeof(T));
          for (auto l = 0u; l < lanes; ++l)
            d[i][l] = x;
        }
        return in + 1;
      }
    } else if (S::near(w, a, offset, bytes)) {
      auto p = S::run(w, first, bytes) - first;
      T out[N][lanes];
      for (auto l = 0u; l < lanes; ++l)
        for (auto i = 0u; i < N; ++i)
          out[i][l] = peek<T>(p + u64(A(a[l] + A(offset))) + i * sizeof(T));
      for (auto i = 0u; i < N; ++i)
        std::memcpy(d[i], out[i], sizeof out[i]);
      return in + 1;
    }
  }
  for (auto m = w.mask; m != 0; m &= m - 1) {
    auto l = u32(__builtin_ctz(m));
    auto x = u64(A(a[l] + A(offset)));
    auto p = x % bytes == 0 ? S::lane(w, l, x, bytes) : nullptr;
    if (p == nullptr)
      return bad_address(w, in, x, bytes);
    for (auto i = 0u; i < N; ++i)
      d[i][l] = peek<T>(p + i * sizeof(T));
  }
  return in + 1;
}

template <class T, unsigned N, class S>
const instr* store(warp& w, const instr* in) {
  using A = typename S::address;
  constexpr auto bytes = u64{sizeof(T) * N};
  auto a = reg<A>(w, in, fa);
  auto offset = u64(in->imm);
  const T* s[N];
  for (auto i = 0u; i < N; ++i)
    s[i] = reg<T>(w, in, vector_from[i]);
  if (w.mask == all_lanes) [[likely]] {
    auto first = u64(A(a[0] + A(offset)));
    auto how = first % bytes == 0 ? pattern_of(a, bytes) : pattern::other;
    if (how == pattern::coalesced) {
      if (auto p = S::run(w, first, bytes * lanes)) {
        if constexpr (N == 1) {
          std::memcpy(p, s[0], bytes * lanes);
        } else {
          for (auto l = 0u; l < lanes; ++l)
            for (auto i = 0u; i < N; ++i)
              poke<T>(p + l * bytes + i * sizeof(T), s[i][l]);
        }
        return in + 1;
      }
    } else if (how == pattern::other && S::near(w, a, offset, bytes)) {
      auto p = S::run(w, first, bytes) - first;
      for (auto l = 0u; l < lanes; ++l)
        for (auto i = 0u; i < N; ++i)
          poke<T>(p + u64(A(a[l] + A(offset))) + i * sizeof(T), s[i][l]);
      return in + 1;
    }
  }
  for (auto m = w.mask; m != 0; m &= m - 1) {
    auto l = u32(__builtin_ctz(m));
    auto x = u64(A(a[l] + A(offset)));
    auto p = x % bytes == 0 ? S::lane(w, l, x, bytes) : nullptr;
    if (p == nullptr)
      return bad_address(w, in, x, bytes);
    for (auto i = 0u; i < N; ++i)
      poke<T>(p + i * sizeof(T), s[i][l]);
  }
  return in + 1;
}

// As load, for what others may be waiting to see change.
template <class T, unsigned N, class S>
const instr* load_watched(warp& w, const instr* in) {
  w.may_spin();
  return load<T, N, S>(w, in);
}

// Call parameters: imm is the offset of lane 0, extra the bytes of a lane.
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

// As load_frame, at a variable offset: fa is relative to the parameter at imm,
// flags is the size of the parameter.
template <class T>
const instr* load_frame_at(warp& w, const instr* in) {
  auto base = w.in_frame()->params;
  auto a = reg<u64>(w, in, fa);
  auto d = reg<T>(w, in, fd);
  for (auto m = w.mask; m != 0; m &= m - 1) {
    auto l = u32(__builtin_ctz(m));
    // A parameter's address is (offset of lane 0, bytes a lane, offset).
    auto x = a[l] + u64(in->imm);
    auto offset = x & 0xffff;
    auto stride = (x >> 16) & 0xffff;
    auto first = x >> 32;
    if (offset + sizeof(T) > stride
        || first + stride * lanes > w.in_frame()->of->param_bytes)
      return bad_address(w, in, x, 1);
    d[l] = peek<T>(base + first + l * stride + offset);
  }
  return in + 1;
}

// Fills with the base of this frame's .local variables plus imm.
inline const instr* local_address(warp& w, const instr* in) {
  auto x = u64(w.in_frame()->local_base) + u64(in->imm);
  return fill<u64>(w, in, [=](unsigned) { return x; });
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

inline const instr* is_global(warp& w, const instr* in) {
  auto a = reg<u64>(w, in, fa);
  auto out = lane_mask{0};
  for (auto l = 0u; l < lanes; ++l)
    out |= a[l] - shared_aperture >= aperture_bytes
               && a[l] - local_aperture >= aperture_bytes
               && a[l] - param_aperture >= aperture_bytes
             ? lane_bits[l]
             : 0u;
  set_pred(w, in, fd, out);
  return in + 1;
}

// cp.async, done at once: fa shared address, fb global address, fc bytes that
// are read (the rest is zero), imm bytes that are written.
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
    auto q = y % bytes == 0 && size != 0 ? global_space::run(w, y, size)
                                         : nullptr;
    if (q == nullptr && size != 0)
      return bad_address(w, in, y, bytes);
    if (size != 0)
      std::memcpy(p, q, size);
    std::memset(p + size, 0, bytes - size);
  }
  return in + 1;
}

#define LD_ST(T, n, N, space, S, aw)                                           \
  op_entry{"ld." space #n "." #N, &load<T, N, S>,                              \
           load_signature<T, N, aw>},                                          \
  op_entry{"ldw." space #n "." #N, &load_watched<T, N, S>,                     \
           load_signature<T, N, aw>},                                          \
  op_entry{"st." space #n "." #N, &store<T, N, S>,                             \
           store_signature<T, N, aw>},
#define LD_ST_ALL(space, S, aw)                                                \
  LD_ST(u8, 1, 1, space, S, aw)                                                \
  LD_ST(u8, 1, 2, space, S, aw)                                                \
  LD_ST(u8, 1, 4, space, S, aw)                                                \
  LD_ST(u16, 2, 1, space, S, aw)                                               \
  LD_ST(u16, 2, 2, space, S, aw)                                               \
  LD_ST(u16, 2, 4, space, S, aw)                                               \
  LD_ST(u32, 4, 1, space, S, aw)                                               \
  LD_ST(u32, 4, 2, space, S, aw)                                               \
  LD_ST(u32, 4, 4, space, S, aw)                                               \
  LD_ST(u64, 8, 1, space, S, aw)                                               \
  LD_ST(u64, 8, 2, space, S, aw)                                               \
  LD_ST(u64, 8, 4, space, S, aw)

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

#define FRAME(T, n, N)                                                         \
  op_entry{"ld.frame." #n "." #N, &load_frame<T, N>,                           \
           load_signature<T, N, '.'>},                                         \
  op_entry{"st.frame." #n "." #N, &store_frame<T, N>,                          \
           store_signature<T, N, '.'>},
#define FRAME_ALL(T, n) FRAME(T, n, 1) FRAME(T, n, 2) FRAME(T, n, 4)

static const op_entry memory_ops[] = {
  LD_ST_ALL("global.a8.", global_space, '8')
  LD_ST_ALL("generic.a8.", generic_space, '8')
  LD_ST_ALL("shared.a4.", shared_space<u32>, '4')
  LD_ST_ALL("shared.a8.", shared_space<u64>, '8')
  LD_ST_ALL("local.a4.", local_space<u32>, '4')
  LD_ST_ALL("local.a8.", local_space<u64>, '8')
  LD_ST_ALL("param.a4.", param_space<u32>, '4')
  LD_ST_ALL("param.a8.", param_space<u64>, '8')
  FRAME_ALL(u8, 1)
  FRAME_ALL(u16, 2)
  FRAME_ALL(u32, 4)
  FRAME_ALL(u64, 8)
  op_entry{"ld.frame.at.1", &load_frame_at<u8>, "A8"},
  op_entry{"ld.frame.at.2", &load_frame_at<u16>, "B8"},
  op_entry{"ld.frame.at.4", &load_frame_at<u32>, "D8"},
  op_entry{"ld.frame.at.8", &load_frame_at<u64>, "H8"},
  op_entry{"local.address", &local_address, "H"},
  op_entry{"isspacep.shared", &is_space<shared_aperture>, "P8"},
  op_entry{"isspacep.local", &is_space<local_aperture>, "P8"},
  op_entry{"isspacep.param", &is_space<param_aperture>, "P8"},
  op_entry{"isspacep.global", &is_global, "P8"},
  op_entry{"cp.async.a4", &copy_async<u32>, ".48?4"},
  op_entry{"cp.async.a8", &copy_async<u64>, ".88?4"},
};
