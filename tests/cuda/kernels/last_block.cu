// A whole reduction in one launch: the last block to finish, found by a counter
// after a fence, adds up the results of the others.
#include <cstdio>

__device__ unsigned finished = 0;

__global__ void sum(const float* in, volatile float* parts, float* out, int n) {
  __shared__ float cache[128];
  __shared__ bool last;
  float mine = 0;
  for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128)
    mine += in[i];
  cache[threadIdx.x] = mine;
  __syncthreads();
  for (int s = 64; s > 0; s >>= 1) {
    if (threadIdx.x < s)
      cache[threadIdx.x] += cache[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = cache[0];
    __threadfence();
    last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float total = 0;
    for (int b = 0; b < gridDim.x; ++b)
      total += parts[b];
    *out = total;
  }
}

int main() {
  const int n = 100000, blocks = 37;
  static float host[n];
  float want = 0;
  for (int i = 0; i < n; ++i) {
    host[i] = (float)(i % 13 - 4); // whole numbers: exact in any order
    want += host[i];
  }
  float *in, *parts, *out, got;
  if (cudaMalloc(&in, sizeof host) || cudaMalloc(&parts, blocks * 4) ||
      cudaMalloc(&out, 4))
    return 1;
  cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice);
  for (int round = 0; round < 5; ++round) {
    cudaMemset(out, 0xff, 4);
    sum<<<blocks, 128>>>(in, parts, out, n);
    if (cudaMemcpy(&got, out, 4, cudaMemcpyDeviceToHost) || got != want) {
      printf("round %d: %g, not %g\n", round, got, want);
      return 1;
    }
  }
  puts("ok");
}
