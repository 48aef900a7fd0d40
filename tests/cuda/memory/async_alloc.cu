// Allocations in stream order, from the default pool.
#include <cstdio>
#include <vector>

__global__ void ramp(int* p, int n, int first) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    p[i] = first + i;
}
__global__ void accumulate(const int* p, int n, int* sum) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    sum[i] += p[i];
}

int main() {
#define TRY(x)                                                                 \
  if ((x) != cudaSuccess) {                                                    \
    printf(#x " failed: %s\n", cudaGetErrorString(cudaGetLastError()));        \
    return 1;                                                                  \
  }
  int supported = 0;
  TRY(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0));
  if (!supported) {
    printf("no memory pools\n");
    return 1;
  }
  const int n = 10000, rounds = 50;
  cudaStream_t s;
  TRY(cudaStreamCreate(&s));
  int* sum;
  TRY(cudaMallocAsync(&sum, n * sizeof(int), s));
  TRY(cudaMemsetAsync(sum, 0, n * sizeof(int), s));
  for (int r = 0; r < rounds; ++r) {
    int* part;
    TRY(cudaMallocAsync(&part, n * sizeof(int), s));
    ramp<<<(n + 255) / 256, 256, 0, s>>>(part, n, r);
    accumulate<<<(n + 255) / 256, 256, 0, s>>>(part, n, sum);
    TRY(cudaFreeAsync(part, s));
  }
  std::vector<int> got(n);
  TRY(cudaMemcpyAsync(got.data(), sum, n * sizeof(int), cudaMemcpyDeviceToHost,
                      s));
  TRY(cudaStreamSynchronize(s));
  for (int i = 0; i < n; ++i) {
    if (got[i] != rounds * i + rounds * (rounds - 1) / 2) {
      printf("%d: %d\n", i, got[i]);
      return 1;
    }
  }
  TRY(cudaFreeAsync(sum, s));
  // An ordinary free accepts such memory too, once its stream is idle.
  int* other;
  TRY(cudaMallocAsync(&other, 1 << 20, s));
  TRY(cudaStreamSynchronize(s));
  TRY(cudaFree(other));
  cudaMemPool_t pool;
  TRY(cudaDeviceGetDefaultMemPool(&pool, 0));
  // In the driver's account, memory that an ordinary free released still counts
  // as used.
  unsigned long long used = 0;
  TRY(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  if (used != 1 << 20) {
    printf("%llu bytes in use\n", used);
    return 1;
  }
  TRY(cudaMemPoolTrimTo(pool, 0));
  TRY(cudaStreamDestroy(s));
  printf("ok\n");
  return 0;
}
