// A prefix sum in one pass: a block takes its number, publishes its sum, and
// looks back over what the blocks before it have published.
#include <cstdio>
#include <numeric>
#include <vector>

constexpr int threads = 256, items = 8, tile = threads * items;
constexpr unsigned nothing = 0, sum_only = 1, whole_prefix = 2;

__device__ unsigned next_tile;

// Packs status and value into one word, so that they are read together.
__device__ unsigned long long pack(unsigned status, unsigned value) {
  return (unsigned long long)status << 32 | value;
}

__device__ unsigned scan_block(unsigned x, unsigned* total) {
  __shared__ unsigned sums[threads / 32];
  unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int offset = 1; offset < 32; offset *= 2) {
    unsigned other = __shfl_up_sync(~0u, x, offset);
    x += lane >= offset ? other : 0;
  }
  if (lane == 31)
    sums[warp] = x;
  __syncthreads();
  unsigned before = 0;
  *total = 0;
  for (int w = 0; w < threads / 32; ++w) {
    before += w < warp ? sums[w] : 0;
    *total += sums[w];
  }
  return x + before;
}

__global__ __launch_bounds__(threads) void scan(const unsigned* in,
                                                unsigned* out,
                                                unsigned long long* state,
                                                int n) {
  __shared__ unsigned my_tile, my_prefix;
  if (threadIdx.x == 0)
    my_tile = atomicAdd(&next_tile, 1);
  __syncthreads();
  unsigned t = my_tile, x[items], sum = 0, total;
#pragma unroll
  for (int k = 0; k < items; ++k) {
    unsigned i = t * tile + threadIdx.x * items + k;
    x[k] = i < n ? in[i] : 0;
    sum += x[k];
  }
  unsigned prefix = scan_block(sum, &total) - sum;
  if (threadIdx.x == 0)
    atomicExch(&state[t], pack(t == 0 ? whole_prefix : sum_only, total));
  if (threadIdx.x < 32) {
    unsigned before = 0;
    // Reads 32 tiles at a time, until one has its whole prefix.
    for (int last = int(t) - 1; last >= 0; last -= 32) {
      int mine = last - int(threadIdx.x);
      unsigned long long seen = pack(whole_prefix, 0);
      if (mine >= 0)
        do
          seen = *(volatile unsigned long long*)&state[mine];
        while (seen >> 32 == nothing);
      unsigned whole = __ballot_sync(~0u, seen >> 32 == whole_prefix);
      // Tiles behind the nearest one with a whole prefix do not count.
      unsigned nearest = __ffs(whole) - 1;
      unsigned value =
          whole == 0 || threadIdx.x <= nearest ? unsigned(seen) : 0;
      for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(~0u, value, offset);
      before += value;
      if (whole != 0)
        break;
    }
    if (threadIdx.x == 0) {
      my_prefix = before;
      if (t != 0)
        atomicExch(&state[t], pack(whole_prefix, before + total));
    }
  }
  __syncthreads();
  prefix += my_prefix;
#pragma unroll
  for (int k = 0; k < items; ++k) {
    unsigned i = t * tile + threadIdx.x * items + k;
    if (i < n)
      out[i] = prefix;
    prefix += x[k];
  }
}

int main() {
  constexpr int n = 1000001, tiles = (n + tile - 1) / tile;
  std::vector<unsigned> in(n), expected(n), got(n);
  for (int i = 0; i < n; ++i)
    in[i] = i * 2654435761u >> 20;
  std::exclusive_scan(in.begin(), in.end(), expected.begin(), 0u);
  unsigned *dev_in, *dev_out;
  unsigned long long* state;
  if (cudaMalloc(&dev_in, n * 4) || cudaMalloc(&dev_out, n * 4) ||
      cudaMalloc(&state, tiles * 8))
    return 1;
  cudaMemcpy(dev_in, in.data(), n * 4, cudaMemcpyHostToDevice);
  for (int round = 0; round < 3; ++round) {
    unsigned zero = 0;
    cudaMemcpyToSymbol(next_tile, &zero, sizeof zero);
    cudaMemset(state, 0, tiles * 8);
    scan<<<tiles, threads>>>(dev_in, dev_out, state, n);
    cudaError_t e =
        cudaMemcpy(got.data(), dev_out, n * 4, cudaMemcpyDeviceToHost);
    if (e != cudaSuccess || got != expected) {
      std::printf("round %d: %s\n", round, cudaGetErrorString(e));
      return 1;
    }
  }
  std::printf("ok\n");
}
