// An exclusive prefix sum over many blocks, in three launches.
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <vector>

const int BLOCK = 256;

__global__ void scanBlocks(const unsigned* in, unsigned* out, unsigned* totals,
                           int n) {
  __shared__ unsigned buf[2][BLOCK];
  int t = threadIdx.x, i = blockIdx.x * BLOCK + t, from = 0;
  buf[0][t] = i < n ? in[i] : 0;
  __syncthreads();
  for (int d = 1; d < BLOCK; d *= 2) {
    buf[1 - from][t] = t >= d ? buf[from][t] + buf[from][t - d] : buf[from][t];
    from = 1 - from;
    __syncthreads();
  }
  if (i < n)
    out[i] = t ? buf[from][t - 1] : 0;
  if (t == BLOCK - 1 && totals)
    totals[blockIdx.x] = buf[from][t];
}

__global__ void addOffsets(unsigned* out, const unsigned* offsets, int n) {
  int i = blockIdx.x * BLOCK + threadIdx.x;
  if (i < n)
    out[i] += offsets[blockIdx.x];
}

#define GPU(x)                                                                 \
  if ((x) != cudaSuccess) {                                                    \
    printf("%s\n", #x);                                                        \
    exit(1);                                                                   \
  }

int main() {
  const int n = 60001;
  const int blocks = (n + BLOCK - 1) / BLOCK; // at most BLOCK of them
  std::vector<unsigned> in(n), out(n);
  for (int i = 0; i < n; ++i)
    in[i] = (i * 7919) % 100;
  unsigned *dIn, *dOut, *dTotals, *dOffsets;
  GPU(cudaMalloc(&dIn, n * 4));
  GPU(cudaMalloc(&dOut, n * 4));
  GPU(cudaMalloc(&dTotals, blocks * 4));
  GPU(cudaMalloc(&dOffsets, blocks * 4));
  GPU(cudaMemcpy(dIn, in.data(), n * 4, cudaMemcpyHostToDevice));
  scanBlocks<<<blocks, BLOCK>>>(dIn, dOut, dTotals, n);
  scanBlocks<<<1, BLOCK>>>(dTotals, dOffsets, NULL, blocks);
  addOffsets<<<blocks, BLOCK>>>(dOut, dOffsets, n);
  GPU(cudaGetLastError());
  GPU(cudaMemcpy(out.data(), dOut, n * 4, cudaMemcpyDeviceToHost));
  unsigned sum = 0;
  for (int i = 0; i < n; ++i) {
    if (out[i] != sum) {
      printf("prefix of %d is %u, not %u\n", i, out[i], sum);
      return 1;
    }
    sum += in[i];
  }
  cudaFree(dIn);
  cudaFree(dOut);
  cudaFree(dTotals);
  cudaFree(dOffsets);
  printf("ok\n");
  return 0;
}
