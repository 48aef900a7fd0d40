// After cudaDeviceReset everything is freed, and new calls work.
#include <cstdio>

__device__ int global = 41;

__global__ void raise_global() {
  ++global;
}

static int read_global() {
  int value = -1;
  cudaMemcpyFromSymbol(&value, global, sizeof value);
  return value;
}

int main() {
  for (int life = 0; life < 3; ++life) {
    void* p = nullptr;
    cudaStream_t stream;
    if (cudaMalloc(&p, 1 << 20) != cudaSuccess ||
        cudaStreamCreate(&stream) != cudaSuccess) {
      printf("life %d: no memory or stream\n", life);
      return 1;
    }
    if (read_global() != 41) {
      printf("life %d starts with %d\n", life, read_global());
      return 1;
    }
    raise_global<<<1, 1, 0, stream>>>();
    if (cudaStreamSynchronize(stream) != cudaSuccess || read_global() != 42) {
      printf("life %d ends with %d\n", life, read_global());
      return 1;
    }
    // The reset comes without freeing anything.
    if (cudaDeviceReset() != cudaSuccess) {
      printf("reset\n");
      return 1;
    }
  }
  printf("ok\n");
}
