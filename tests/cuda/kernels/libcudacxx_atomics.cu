// cuda::atomic of libcu++: every width, order and scope.
// nvcc: -arch=compute_90
#include <cstdint>
#include <cstdio>
#include <cuda/atomic>

constexpr int threads = 256, blocks = 8, everybody = threads * blocks;

template <class T, cuda::thread_scope Scope>
struct cell {
  cuda::atomic<T, Scope> sum{0}, bits{0}, exchanged{0}, highest{0}, lowest{0};
};

template <class T, cuda::thread_scope Scope>
__global__ void use(cell<T, Scope>* c, unsigned* won) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  c->sum.fetch_add(T(1), cuda::memory_order_relaxed);
  c->sum.fetch_add(T(3), cuda::memory_order_acq_rel);
  c->sum.fetch_sub(T(2), cuda::memory_order_seq_cst);
  c->bits.fetch_xor(T(i), cuda::memory_order_acquire);
  c->bits.fetch_or(T(0), cuda::memory_order_release);
  c->highest.fetch_max(T(i % 101));
  c->lowest.fetch_min(T(i % 101) - T(50));
  // A counter made of compare and exchange.
  T seen = c->exchanged.load(cuda::memory_order_acquire);
  while (!c->exchanged.compare_exchange_weak(seen, T(seen + 1),
                                             cuda::memory_order_acq_rel,
                                             cuda::memory_order_relaxed)) {
  }
  if (c->exchanged.load(cuda::memory_order_seq_cst) >= T(1))
    atomicAdd(won, 1);
}

template <class T, cuda::thread_scope Scope>
int try_scope(const char* type, const char* scope) {
  using cells = cell<T, Scope>;
  cells* c;
  unsigned* won;
  if (cudaMalloc(&won, sizeof *won) != cudaSuccess ||
      cudaMalloc(&c, sizeof *c) != cudaSuccess)
    return 1;
  cudaMemset(won, 0, sizeof *won);
  cudaMemset(c, 0, sizeof *c);
  // Signed types of 8 bits would wrap: one block counts below 127 there.
  unsigned grid = Scope == cuda::thread_scope_block ? 1 : blocks;
  unsigned block = sizeof(T) == 1 ? 12 : threads;
  unsigned total = grid * block;
  use<T, Scope><<<grid, block>>>(c, won);
  unsigned char raw[sizeof(cells)];
  cudaError_t e = cudaMemcpy(raw, c, sizeof raw, cudaMemcpyDeviceToHost);
  unsigned counted = 0;
  cudaMemcpy(&counted, won, sizeof counted, cudaMemcpyDeviceToHost);
  T got[5];
  for (int k = 0; k < 5; ++k)
    memcpy(&got[k], raw + k * sizeof(cuda::atomic<T, Scope>), sizeof(T));
  T bits = 0;
  unsigned highest = 0;
  for (unsigned i = 0; i < total; ++i) {
    bits ^= T(i);
    highest = i % 101 > highest ? i % 101 : highest;
  }
  bool ok = e == cudaSuccess && got[0] == T(2 * total) && got[1] == bits &&
            got[2] == T(total) && got[3] == T(highest) &&
            (got[4] == T(-50) || (T(-1) > T(0) && got[4] == T(0))) &&
            counted == total;
  if (!ok)
    std::printf("%s, %s scope: %s, %lld %lld %lld %lld %lld, %u\n", type, scope,
                cudaGetErrorString(e), (long long)got[0], (long long)got[1],
                (long long)got[2], (long long)got[3], (long long)got[4],
                counted);
  cudaFree(c);
  cudaFree(won);
  return !ok;
}

template <class T>
int try_type(const char* type) {
  return try_scope<T, cuda::thread_scope_system>(type, "system") +
         try_scope<T, cuda::thread_scope_device>(type, "device") +
         try_scope<T, cuda::thread_scope_block>(type, "block");
}

// Producer and consumer: writes before a release are visible after the acquire.
// The consumer begins first.
__global__ void hand_over(cuda::atomic<int, cuda::thread_scope_device>* flag,
                          volatile int* payload, int* seen) {
  if (threadIdx.x != 0)
    return;
  if (blockIdx.x == 0) {
    flag->wait(0, cuda::memory_order_acquire);
    *seen = *payload;
    flag->store(2, cuda::memory_order_release);
    flag->notify_all();
  } else {
    *payload = 4711;
    flag->store(1, cuda::memory_order_release);
    flag->notify_one();
    while (flag->load(cuda::memory_order_acquire) != 2)
      __nanosleep(100);
  }
}

// atomic_ref on floating point, pointers, flags, and 16 bytes at once.
struct alignas(16) pair {
  std::uint64_t count, sum;
};
__global__ void others(float* f, double* d, int** p, cuda::std::atomic_flag* a,
                       pair* wide, unsigned* first) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  cuda::atomic_ref<float, cuda::thread_scope_device>(*f).fetch_add(0.5f);
  cuda::atomic_ref<double, cuda::thread_scope_system> x(*d);
  x.fetch_max(double(i));
  cuda::atomic_ref<int*, cuda::thread_scope_device>(*p).fetch_add(2);
  if (!a->test_and_set())
    atomicAdd(first, 1);
  // The header's own function does not compile for 16 bytes.
  pair old = atomicExch(wide + 1, pair{i, i}), assumed;
  do {
    assumed = old;
    old = atomicCAS(wide, assumed, pair{assumed.count + 1, assumed.sum + i});
  } while (old.count != assumed.count || old.sum != assumed.sum);
  __nv_atomic_fetch_add(&wide[1].sum, 0ull, __NV_ATOMIC_ACQ_REL,
                        __NV_THREAD_SCOPE_CLUSTER);
}

int main() {
  int bad = try_type<std::int8_t>("int8") + try_type<std::uint16_t>("uint16") +
            try_type<std::int32_t>("int32") +
            try_type<std::uint32_t>("uint32") +
            try_type<std::int64_t>("int64") + try_type<std::uint64_t>("uint64");

  int *words, seen = 0;
  cudaMalloc(&words, 3 * sizeof(int));
  cudaMemset(words, 0, 3 * sizeof(int));
  hand_over<<<2, 32>>>(
      reinterpret_cast<cuda::atomic<int, cuda::thread_scope_device>*>(words),
      words + 1, words + 2);
  cudaMemcpy(&seen, words + 2, sizeof seen, cudaMemcpyDeviceToHost);
  if (seen != 4711) {
    std::printf("hand over: %d\n", seen);
    ++bad;
  }

  struct results {
    pair wide, last;
    double d;
    int* p;
    float f;
    unsigned first;
    unsigned flag;
  } * r, got;
  cudaMalloc(&r, sizeof *r);
  cudaMemset(r, 0, sizeof *r);
  static_assert(sizeof(cuda::std::atomic_flag) <= sizeof r->flag);
  others<<<blocks, threads>>>(
      &r->f, &r->d, &r->p, reinterpret_cast<cuda::std::atomic_flag*>(&r->flag),
      &r->wide, &r->first);
  cudaError_t e = cudaMemcpy(&got, r, sizeof got, cudaMemcpyDeviceToHost);
  if (e != cudaSuccess || got.f != everybody * 0.5f || got.d != everybody - 1 ||
      reinterpret_cast<std::uintptr_t>(got.p) != everybody * 2 * sizeof(int) ||
      got.first != 1 || got.wide.count != everybody ||
      got.wide.sum != std::uint64_t(everybody) * (everybody - 1) / 2) {
    std::printf("others: %s, %g %g %p %u %llu %llu\n", cudaGetErrorString(e),
                got.f, got.d, (void*)got.p, got.first,
                (unsigned long long)got.wide.count,
                (unsigned long long)got.wide.sum);
    ++bad;
  }
  if (bad)
    return 1;
  std::printf("ok\n");
}
