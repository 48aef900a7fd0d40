// Accesses to whole vectors. A GPU loads an aligned vector of up to 16 bytes in
// one access, and programs rely on that (CUB's scans keep a state and a value
// in one vector), although the PTX ISA guarantees it for each element only.
// Another host thread may write the vector meanwhile.

// Mixing AVX encodings with older ones is slow, so these follow the level.
#ifdef __AVX__
#define VGPU_MOVE "vmovdq"
#else
#define VGPU_MOVE "movdq"
#endif

// A lane's own memory need not be aligned as on a GPU, because no other thread
// sees it.
inline bool is_aligned(const std::byte* p) {
  return reinterpret_cast<u64>(p) % 16 == 0;
}

template <unsigned Bytes>
using word_of = std::conditional_t<
    Bytes == 2, u16, std::conditional_t<Bytes == 4, u32, u64>>;

// One access of the processor. The makers of processors with AVX guarantee that
// 16 aligned bytes are accessed at once; for other processors there is no
// guarantee.
template <unsigned Bytes>
void fetch_whole(std::byte* to, const std::byte* from) {
  if constexpr (Bytes == 16) {
    if (!is_aligned(from)) [[unlikely]] {
      std::memcpy(to, from, Bytes);
      return;
    }
    __m128i x;
    asm volatile(VGPU_MOVE "a %1, %0"
                 : "=x"(x)
                 : "m"(*reinterpret_cast<const __m128i*>(from)));
    std::memcpy(to, &x, sizeof x);
  } else if constexpr (Bytes < 16) {
    auto x = __atomic_load_n(reinterpret_cast<const word_of<Bytes>*>(from),
                             __ATOMIC_RELAXED);
    std::memcpy(to, &x, sizeof x);
  } else {
    static_assert(Bytes == 32);
    fetch_whole<16>(to, from);
    fetch_whole<16>(to + 16, from + 16);
  }
}

template <unsigned Bytes>
void put_whole(std::byte* to, const std::byte* from) {
  if constexpr (Bytes == 16) {
    if (!is_aligned(to)) [[unlikely]] {
      std::memcpy(to, from, Bytes);
      return;
    }
    __m128i x;
    std::memcpy(&x, from, sizeof x);
    asm volatile(VGPU_MOVE "a %1, %0"
                 : "=m"(*reinterpret_cast<__m128i*>(to))
                 : "x"(x));
  } else if constexpr (Bytes < 16) {
    word_of<Bytes> x;
    std::memcpy(&x, from, sizeof x);
    __atomic_store_n(reinterpret_cast<word_of<Bytes>*>(to), x,
                     __ATOMIC_RELAXED);
  } else {
    static_assert(Bytes == 32);
    put_whole<16>(to, from);
    put_whole<16>(to + 16, from + 16);
  }
}

// A warp's consecutive vectors are accessed 16 bytes at a time, which never
// splits a shorter vector.
template <unsigned Bytes>
void fetch_row(std::byte* to, const std::byte* from) {
  for (auto at = 0u; at < Bytes * lanes; at += 16) {
    if constexpr (Bytes % 16 == 0) {
      fetch_whole<16>(to + at, from + at);
    } else {
      __m128i x;
      asm volatile(VGPU_MOVE "u %1, %0"
                   : "=x"(x)
                   : "m"(*reinterpret_cast<const __m128i_u*>(from + at)));
      std::memcpy(to + at, &x, sizeof x);
    }
  }
}

template <unsigned Bytes>
void put_row(std::byte* to, const std::byte* from) {
  for (auto at = 0u; at < Bytes * lanes; at += 16) {
    if constexpr (Bytes % 16 == 0) {
      put_whole<16>(to + at, from + at);
    } else {
      __m128i x;
      std::memcpy(&x, from + at, sizeof x);
      asm volatile(VGPU_MOVE "u %1, %0"
                   : "=m"(*reinterpret_cast<__m128i_u*>(to + at))
                   : "x"(x));
    }
  }
}

#undef VGPU_MOVE
