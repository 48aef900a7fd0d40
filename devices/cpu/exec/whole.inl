// Vectors at once. A GPU brings an aligned vector of up to 16 bytes in one
// access, and programs count on it (CUB's scans keep a state and a value in
// one), where the PTX ISA promises it of each element alone. Another host
// thread may write it meanwhile.

// What there is with AVX does not mix well with what there was before it.
#ifdef __AVX__
#define VGPU_MOVE "vmovdq"
#else
#define VGPU_MOVE "movdq"
#endif

// A lane's own memory need not lie here as it does on a GPU; nobody else sees it.
inline bool is_aligned(const std::byte* p) {
  return reinterpret_cast<u64>(p) % 16 == 0;
}

template <unsigned Bytes>
using word_of = std::conditional_t<
    Bytes == 2, u16, std::conditional_t<Bytes == 4, u32, u64>>;

// One access of the processor's. The makers of those that have AVX say that 16
// aligned bytes come at once; of others nobody does.
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

// A warp's consecutive vectors: 16 bytes at a time, of which shorter vectors
// are never cut.
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
