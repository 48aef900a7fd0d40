// cuda::barrier, latch, semaphores and pipeline of libcu++.
// nvcc: -arch=compute_90 -diag-suppress=20054
#include <cooperative_groups.h>
#include <cstdio>
#include <cuda/barrier>
#include <cuda/latch>
#include <cuda/pipeline>
#include <cuda/semaphore>
#include <cuda/std/chrono>
#include <new>
#include <vector>

namespace cg = cooperative_groups;
using block_barrier = cuda::barrier<cuda::thread_scope_block>;

// In every phase each thread reads what its neighbour wrote in the previous
// one.
__global__ void phases(int* out, int rounds) {
  __shared__ block_barrier barrier;
  __shared__ int line[2][96];
  int i = threadIdx.x;
  if (i == 0)
    init(&barrier, blockDim.x);
  line[0][i] = i;
  __syncthreads();
  for (int r = 0; r < rounds; ++r) {
    line[(r + 1) % 2][i] = line[r % 2][(i + 1) % blockDim.x] + 1;
    if (r % 3 == 0) {
      barrier.arrive_and_wait();
    } else if (r % 3 == 1) {
      auto token = barrier.arrive();
      barrier.wait(std::move(token));
    } else {
      auto token = barrier.arrive();
      while (!barrier.try_wait_for(std::move(token),
                                   cuda::std::chrono::microseconds(5))) {
      }
    }
  }
  out[blockIdx.x * blockDim.x + i] = line[rounds % 2][i];
}

// Threads leave a barrier for good, one after the other.
__global__ void dropping(int* order) {
  __shared__ block_barrier barrier;
  __shared__ int now;
  if (threadIdx.x == 0) {
    init(&barrier, blockDim.x);
    now = 0;
  }
  __syncthreads();
  for (int turn = 0; turn < threadIdx.x; ++turn)
    barrier.arrive_and_wait();
  order[threadIdx.x] = atomicAdd(&now, 1);
  barrier.arrive_and_drop();
}

// A barrier of all blocks, whose completion counts its phases.
struct count_phase {
  int* phases;
  __device__ void operator()() const noexcept { ++*phases; }
};
using grid_barrier = cuda::barrier<cuda::thread_scope_device, count_phase>;

__global__ void make_barrier(grid_barrier* b, int* phases, int expected) {
  new (b) grid_barrier(expected, count_phase{phases});
}

__global__ void across_blocks(grid_barrier* b, const int* phases, int* wrong) {
  for (int r = 1; r <= 5; ++r) {
    b->arrive_and_wait();
    if (*reinterpret_cast<const volatile int*>(phases) < r)
      atomicAdd(wrong, 1);
  }
}

// A latch opens when every block has written. A semaphore admits few at a time.
using device_latch = cuda::latch<cuda::thread_scope_device>;
using device_semaphore = cuda::counting_semaphore<cuda::thread_scope_device, 3>;

__global__ void make_gates(device_latch* l, device_semaphore* s, int blocks) {
  new (l) device_latch(blocks);
  new (s) device_semaphore(3);
}

__global__ void gates(device_latch* l, device_semaphore* s, int* data,
                      int* inside, int* most, int* sums) {
  if (threadIdx.x == 0) {
    s->acquire();
    atomicMax(most, atomicAdd(inside, 1) + 1);
    data[blockIdx.x] = blockIdx.x + 1;
    __nanosleep(200);
    atomicSub(inside, 1);
    s->release();
    l->arrive_and_wait();
    int sum = 0;
    for (int b = 0; b < gridDim.x; ++b)
      sum += *reinterpret_cast<volatile int*>(&data[b]);
    sums[blockIdx.x] = sum;
  }
}

// Loads the next piece while it sums this one.
template <int Stages>
__global__ void pipelined(const int* in, int pieces, long long* out) {
  constexpr int piece = 128;
  extern __shared__ int staged[];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, Stages>
      state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  const int* mine = in + blockIdx.x * pieces * piece;
  long long sum = 0;
  int fetched = 0;
  for (int p = 0; p < pieces; ++p) {
    for (; fetched < pieces && fetched < p + Stages; ++fetched) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, staged + fetched % Stages * piece,
                         mine + fetched * piece, sizeof(int) * piece, pipe);
      pipe.producer_commit();
    }
    pipe.consumer_wait();
    // Reads another thread's element, to check that all of the piece arrived.
    sum += staged[p % Stages * piece + (threadIdx.x * 37 + 5) % piece];
    pipe.consumer_release();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// Makes a bulk copy that signals a barrier.
__global__ void copied_at_once(const int4* in, int4* out, int count) {
  __shared__ alignas(16) int4 staged[64];
  __shared__ block_barrier barrier;
  if (threadIdx.x == 0)
    init(&barrier, blockDim.x);
  __syncthreads();
  if (threadIdx.x == 0)
    cuda::memcpy_async(staged, in + blockIdx.x * count,
                       cuda::aligned_size_t<16>(sizeof(int4) * count), barrier);
  barrier.arrive_and_wait();
  if (threadIdx.x < count)
    out[blockIdx.x * count + threadIdx.x] = staged[count - 1 - threadIdx.x];
}

static int failures = 0;
static void expect(bool ok, const char* what) {
  if (ok)
    return;
  std::printf("%s: wrong (%s)\n", what, cudaGetErrorString(cudaGetLastError()));
  ++failures;
}

template <class T>
static std::vector<T> read(const void* from, int count) {
  std::vector<T> out(count);
  if (cudaMemcpy(out.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost))
    out.assign(count, T{-1});
  return out;
}

int main() {
  char* memory;
  if (cudaMalloc(&memory, 1 << 20) != cudaSuccess)
    return 1;
  int* ints = reinterpret_cast<int*>(memory);

  phases<<<3, 96>>>(ints, 10);
  auto got = read<int>(ints, 3 * 96);
  for (int i = 0; i < 3 * 96; ++i)
    if (got[i] != (i % 96 + 10) % 96 + 10) {
      expect(false, "barrier phases");
      break;
    }

  dropping<<<1, 40>>>(ints);
  got = read<int>(ints, 40);
  for (int i = 0; i < 40; ++i)
    if (got[i] != i) {
      expect(false, "arrive_and_drop");
      break;
    }

  cudaMemset(memory, 0, 4096);
  auto barrier = reinterpret_cast<grid_barrier*>(memory + 1024);
  make_barrier<<<1, 1>>>(barrier, ints, 4 * 64);
  across_blocks<<<4, 64>>>(barrier, ints, ints + 1);
  got = read<int>(ints, 2);
  expect(got[0] == 5 && got[1] == 0, "barrier of the device");

  cudaMemset(memory, 0, 4096);
  auto latch = reinterpret_cast<device_latch*>(memory + 1024);
  auto semaphore = reinterpret_cast<device_semaphore*>(memory + 1088);
  make_gates<<<1, 1>>>(latch, semaphore, 8);
  gates<<<8, 32>>>(latch, semaphore, ints, ints + 64, ints + 65, ints + 128);
  got = read<int>(ints, 136);
  bool summed = true;
  for (int b = 0; b < 8; ++b)
    summed = summed && got[128 + b] == 36;
  expect(summed, "latch");
  expect(got[65] >= 1 && got[65] <= 3, "semaphore");

  constexpr int pieces = 9, blocks = 4;
  std::vector<int> in(blocks * pieces * 128);
  for (int i = 0; i < int(in.size()); ++i)
    in[i] = i * 2654435761u % 1000;
  cudaMemcpy(memory, in.data(), in.size() * 4, cudaMemcpyHostToDevice);
  auto out = reinterpret_cast<long long*>(memory + (1 << 19));
  for (int stages = 1; stages <= 4; stages *= 2) {
    auto kernel = stages == 1   ? pipelined<1>
                  : stages == 2 ? pipelined<2>
                                : pipelined<4>;
    kernel<<<blocks, 128, stages * 512>>>(ints, pieces, out);
    auto sums = read<long long>(out, blocks * 128);
    for (int i = 0; i < blocks * 128; ++i) {
      long long sum = 0;
      for (int p = 0; p < pieces; ++p)
        sum += in[(i / 128 * pieces + p) * 128 + (i % 128 * 37 + 5) % 128];
      if (sums[i] != sum) {
        expect(false, "pipeline");
        break;
      }
    }
  }

  copied_at_once<<<4, 64>>>(reinterpret_cast<int4*>(memory),
                            reinterpret_cast<int4*>(out), 50);
  auto quads = read<int>(out, 4 * 50 * 4);
  for (int i = 0; i < 4 * 50; ++i)
    if (quads[4 * i] != in[4 * (i / 50 * 50 + 49 - i % 50)]) {
      expect(false, "memcpy_async on a barrier");
      break;
    }

  if (failures != 0)
    return 1;
  std::printf("ok\n");
}
