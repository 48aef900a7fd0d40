// Kernels for the tests of the cpu device, which have the expected results.
#include <cstdio>

extern "C" {

__global__ void vector_add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    c[i] = a[i] + b[i];
}

constexpr int tile = 16;

__global__ void matmul(const float* a, const float* b, float* c, int n) {
  __shared__ float as[tile][tile];
  __shared__ float bs[tile][tile];
  int row = blockIdx.y * tile + threadIdx.y;
  int col = blockIdx.x * tile + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < n / tile; ++t) {
    as[threadIdx.y][threadIdx.x] = a[row * n + t * tile + threadIdx.x];
    bs[threadIdx.y][threadIdx.x] = b[(t * tile + threadIdx.y) * n + col];
    __syncthreads();
    for (int k = 0; k < tile; ++k)
      sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
    __syncthreads();
  }
  c[row * n + col] = sum;
}

// Every lane takes a lock that the other lanes of its warp want as well.
__device__ int lock_word;
__global__ void lock_in_warp(int* counter) {
  bool done = false;
  while (!done) {
    if (atomicCAS(&lock_word, 0, 1) == 0) {
      *counter = *(volatile int*)counter + 1;
      __threadfence();
      atomicExch(&lock_word, 0);
      done = true;
    }
  }
}

// The same, written so that on hardware without independent threads the winner
// waits for the losers.
__global__ void spin_lock(int* lock, int* counter) {
  while (atomicCAS(lock, 0, 1) != 0) {
  }
  *counter = *(volatile int*)counter + 1;
  __threadfence();
  atomicExch(lock, 0);
}

__global__ void collatz(int* steps, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  long long x = i + 1;
  int count = 0;
  while (x != 1) {
    if (x % 2 == 0)
      x /= 2;
    else
      x = 3 * x + 1;
    ++count;
  }
  steps[i] = count;
}

__global__ void block_sum(const int* in, int* out) {
  extern __shared__ int data[];
  int t = threadIdx.x;
  data[t] = in[blockIdx.x * blockDim.x + t];
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s /= 2) {
    if (t < s)
      data[t] += data[t + s];
    __syncthreads();
  }
  if (t == 0)
    atomicAdd(out, data[0]);
}

__global__ void warp_sum(const float* in, float* out) {
  float x = in[blockIdx.x * blockDim.x + threadIdx.x];
  for (int d = 16; d > 0; d /= 2)
    x += __shfl_down_sync(0xffffffffu, x, d);
  if (threadIdx.x % 32 == 0)
    atomicAdd(out, x);
}

__global__ void warp_talk(unsigned* out) {
  unsigned lane = threadIdx.x;
  unsigned* o = out + lane * 10;
  o[0] = __shfl_sync(0xffffffffu, lane * 3, 5);
  o[1] = __shfl_up_sync(0xffffffffu, lane * 3, 2);
  o[2] = __shfl_down_sync(0xffffffffu, lane * 3, 2);
  o[3] = __shfl_xor_sync(0xffffffffu, lane * 3, 7, 8);
  o[4] = __ballot_sync(0xffffffffu, lane % 3 == 0);
  o[5] = __any_sync(0xffffffffu, lane == 31) * 2 +
         __all_sync(0xffffffffu, lane < 31);
  o[6] = __match_any_sync(0xffffffffu, lane % 4);
  int same;
  o[7] = __match_all_sync(0xffffffffu, 42, &same) + same;
  o[8] = __popc(__activemask());
  o[9] = 0;
  if (lane < 10)
    o[9] = __shfl_sync(0x3ffu, lane, 9) + __ballot_sync(0x3ffu, lane & 1);
}

__global__ void vote_count(int* out) {
  int n = __syncthreads_count(threadIdx.x % 3 == 0);
  int all = __syncthreads_and(threadIdx.x < 1000);
  int any = __syncthreads_or(threadIdx.x == 5);
  out[threadIdx.x] = n * 4 + (all != 0) * 2 + (any != 0);
}

__device__ int fibonacci(int n);
__device__ __noinline__ int fibonacci(int n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}
__global__ void recursion(int* out) {
  out[threadIdx.x] = fibonacci(threadIdx.x % 12);
}

__device__ __noinline__ int twice(int x) {
  return 2 * x;
}
__device__ __noinline__ int square(int x) {
  return x * x;
}
typedef int (*function)(int);
__device__ function functions[2] = {twice, square};
__global__ void indirect(int* out) {
  out[threadIdx.x] = functions[threadIdx.x % 2](threadIdx.x);
}

__global__ void say(int n) {
  if (threadIdx.x < 2)
    printf("thread %d of %s: %5.2f %c %llx %%\n", threadIdx.x, "block", n * 1.5,
           'a' + threadIdx.x, 0x123456789abcull);
}

// Uses conversions that the host's printf has and the programming guide does
// not.
__global__ void say_more(double x) {
  printf("%hhd %zu %.*f|%*.*f %5%|\n", 65, size_t(1) << 40, 3, x, 9, 4, x / 2);
}

__global__ void claim(int x) {
  asm volatile("" ::"r"(x));
  if (x != 7)
    __trap();
}

__global__ void write_to(int* where, int x) {
  where[threadIdx.x] = x;
}

__global__ void loop_for_ever(volatile int* flag) {
  while (*flag == 0) {
  }
}

__global__ void wait_for(volatile int* flag, int* out) {
  while (*flag == 0)
    __nanosleep(100);
  *out = *flag;
}

__global__ void set_flag(int* flag, int x) {
  atomicExch(flag, x);
}

// Sleeps, and needs no processor.
__global__ void nap(unsigned times, unsigned nanoseconds, unsigned* naps) {
  for (auto i = 0u; i < times; ++i)
    __nanosleep(nanoseconds);
  atomicAdd(naps, times);
}

// Half of a warp sleeps while the other half works, and both meet at a barrier.
__global__ void nap_beside_work(unsigned* out) {
  __shared__ unsigned sum;
  auto i = threadIdx.x;
  if (i == 0)
    sum = 0;
  __syncthreads();
  if (i % 2 == 0)
    __nanosleep(1'000'000);
  for (auto k = 0u; k < 1000; ++k)
    atomicAdd(&sum, k % 2);
  __syncthreads();
  *out = sum;
}

// Blocks wait for one another, so all must advance, whichever runs first.
__global__ void meet(unsigned* arrived, unsigned* out) {
  if (threadIdx.x == 0) {
    atomicAdd(arrived, 1u);
    while (*(volatile unsigned*)arrived < gridDim.x) {
    }
  }
  __syncthreads();
  out[blockIdx.x] = *(volatile unsigned*)arrived;
}

__global__ void bad_barrier(int* out) {
  if (threadIdx.x < 32)
    asm volatile("bar.sync 1, 64;");
  out[threadIdx.x] = 1;
}

__constant__ float table[4] = {1.0f, 2.5f, -3.0f, 4.0f};
__device__ int numbers[3] = {10, 20, 30};
__device__ int* pointer = &numbers[1];
__global__ void statics(float* out, int i) {
  out[0] = table[i];
  out[1] = *pointer;
  out[2] = numbers[2];
}

struct big {
  int values[20];
  double last;
};
__global__ void by_value(big x, int i, double* out) {
  out[0] = x.values[i];
  out[1] = x.last;
}

__global__ void local_array(int* out, int n) {
  int data[32];
  for (int i = 0; i < n; ++i)
    data[i] = i * (int)threadIdx.x;
  int sum = 0;
  for (int i = 0; i < n; ++i)
    sum += data[(i * 7) % n];
  out[threadIdx.x] = sum;
}

__global__ void generic(int* out) {
  __shared__ int s[32];
  int l[4] = {1, 2, 3, (int)threadIdx.x};
  s[threadIdx.x] = threadIdx.x * 2;
  __syncthreads();
  int* p = threadIdx.x % 3 == 0   ? &s[threadIdx.x]
           : threadIdx.x % 3 == 1 ? &l[3]
                                  : out;
  if (p != out)
    atomicAdd(p, 100);
  __syncthreads();
  out[1 + threadIdx.x] = threadIdx.x % 3 == 0   ? s[threadIdx.x]
                         : threadIdx.x % 3 == 1 ? l[3]
                                                : -1;
}

__global__ void atomics(unsigned* u, float* f, double* d, int* s,
                        unsigned long long* l) {
  unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&u[0], 1u);
  atomicMin(&u[1], t);
  atomicMax(&u[2], t);
  atomicInc(&u[3], 99u);
  atomicDec(&u[4], 99u);
  atomicAnd(&u[5], ~(1u << (t % 32)));
  atomicOr(&u[6], 1u << (t % 32));
  atomicXor(&u[7], 1u << (t % 32));
  atomicAdd(f, 1.0f);
  atomicAdd(d, 0.5);
  atomicMin(&s[0], -(int)t);
  atomicMax(&s[1], (int)t - 500);
  atomicAdd(&l[0], 1ull << 33);
  unsigned old = u[8];
  unsigned seen;
  do {
    seen = old;
    old = atomicCAS(&u[8], seen, seen + 3);
  } while (old != seen);
}

__global__ void dispatch(int* out) {
  int x = threadIdx.x;
  switch (x % 9) {
  case 0:
    x += 11;
    break;
  case 1:
    x *= 13;
    break;
  case 2:
    x -= 17;
    break;
  case 3:
    x ^= 19;
    break;
  case 4:
    x = x * x;
    break;
  case 5:
    x <<= 3;
    break;
  case 6:
    x = ~x;
    break;
  case 7:
    x = x / 3 + 1;
    break;
  default:
    x = 7;
    break;
  }
  out[threadIdx.x] = x;
}
}

#include <cassert>
extern "C" __global__ void insist(int x) {
  assert(x == int(threadIdx.x) * 0 + 1 - int(threadIdx.x));
}
