// Host memory that kernels read and write in place.
#include <cstdio>

__global__ void negate(const int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    out[i] = -in[i];
}

int main() {
  const int n = 50000;
  int can = 0;
  cudaDeviceGetAttribute(&can, cudaDevAttrCanMapHostMemory, 0);
  int *in = nullptr, *out = nullptr, *dev_in = nullptr, *dev_out = nullptr;
  if (!can ||
      cudaHostAlloc(&in, n * sizeof(int), cudaHostAllocMapped) != cudaSuccess ||
      cudaHostAlloc(&out, n * sizeof(int),
                    cudaHostAllocMapped | cudaHostAllocWriteCombined) !=
          cudaSuccess)
    return 1;
  if (cudaHostGetDevicePointer(&dev_in, in, 0) != cudaSuccess ||
      cudaHostGetDevicePointer(&dev_out, out, 0) != cudaSuccess)
    return 1;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < n; ++i)
      in[i] = i + round;
    negate<<<(n + 255) / 256, 256>>>(dev_in, dev_out, n);
    if (cudaDeviceSynchronize() != cudaSuccess)
      return 1;
    for (int i = 0; i < n; ++i) {
      if (out[i] != -(i + round)) {
        printf("round %d: %d is %d\n", round, i, out[i]);
        return 1;
      }
    }
  }
  cudaFreeHost(in);
  cudaFreeHost(out);
  printf("ok\n");
}
