// The memories that an instruction may address.

// Tells whether the offset is in another block's shared memory, which exists
// only while that block runs.
inline bool of_other_block(u64 offset) {
  return offset < aperture_bytes && (offset >> block::rank_shift) != 0;
}

inline const instr* bad_address(warp& w, const instr* in, u64 address,
                                u64 bytes) {
  char text[128];
  auto code = CUDA_ERROR_ILLEGAL_ADDRESS;
  auto x = static_cast<unsigned long long>(address);
  auto n = static_cast<unsigned long long>(bytes);
  if (address % bytes != 0) {
    code = CUDA_ERROR_MISALIGNED_ADDRESS;
    std::snprintf(text, sizeof text, "address 0x%llx is not a multiple of %llu",
                  x, n);
  } else if (of_other_block(address - shared_aperture)) {
    code = CUDA_ERROR_LAUNCH_FAILED;
    std::snprintf(text, sizeof text,
                  "address 0x%llx (%llu bytes) is of no block of the cluster "
                  "that still runs",
                  x, n);
  } else {
    std::snprintf(text, sizeof text, "illegal address 0x%llx (%llu bytes)", x,
                  n);
  }
  return w.fail(code, in, text);
}

// A space turns addresses into host memory:
//   run(w, address, bytes) returns that of consecutive memory, the same for all
//     lanes, or null.
//   lane(w, l, address, bytes) returns that of one lane, or null.
//   generic(address) returns the generic address, for messages.
//   near(w, a, offset, bytes) tells whether all 32 addresses may be accessed
//     without a further check, at run's address of a[0] plus their distance.

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
  static u64 generic(u64 a) { return a; }
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

// A generic address may be of any space. The fast paths are for global memory.
struct generic_space : global_space {
  static std::byte* lane(warp& w, unsigned l, u64 a, u64 bytes) {
    return w.blk.resolve(w, l, a, bytes);
  }
};

// The fast paths are for the block's own memory.
template <class A>
struct shared_space {
  using address = A;
  static std::byte* run(warp& w, u64 a, u64 bytes) {
    return a < w.shared_bytes && bytes <= w.shared_bytes - a ? w.shared + a
                                                             : nullptr;
  }
  static std::byte* lane(warp& w, unsigned, u64 a, u64 bytes) {
    auto own = run(w, a, bytes);
    return own == nullptr && of_other_block(a) ? w.blk.shared_at(a, bytes)
                                               : own;
  }
  static u64 generic(u64 a) {
    return of_other_block(a) ? shared_aperture + a : a;
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
  static u64 generic(u64 a) { return a; }
  static bool near(warp&, const A*, u64, u64) { return false; }
};

// Kernel parameters, addressed by their offset.
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
  static u64 generic(u64 a) { return a; }
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
