// Copies and kernels use ordinary memory that is page-locked later.
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(e)                                                               \
  {                                                                            \
    auto result = (e);                                                         \
    if (result != cudaSuccess) {                                               \
      fprintf(stderr, "%d: %s\n", __LINE__, cudaGetErrorString(result));       \
      return 1;                                                                \
    }                                                                          \
  }

__global__ void increment(int* p, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    ++p[i];
}

int main() {
  const int n = 100000;
  const size_t bytes = n * sizeof(int);
  int* host = nullptr;
  if (posix_memalign(reinterpret_cast<void**>(&host), 4096, bytes))
    return 1;
  for (int i = 0; i < n; ++i)
    host[i] = 3 * i;
  CHECK(cudaHostRegister(host, bytes, cudaHostRegisterDefault));
  if (cudaHostRegister(host, bytes, cudaHostRegisterDefault) !=
      cudaErrorHostMemoryAlreadyRegistered)
    return 1;
  cudaGetLastError();
  int* dev = nullptr;
  CHECK(cudaMalloc(&dev, bytes));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  for (int round = 0; round < 3; ++round) {
    CHECK(cudaMemcpyAsync(dev, host, bytes, cudaMemcpyHostToDevice, stream));
    increment<<<(n + 255) / 256, 256, 0, stream>>>(dev, n);
    CHECK(cudaMemcpyAsync(host, dev, bytes, cudaMemcpyDeviceToHost, stream));
  }
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaHostUnregister(host));
  for (int i = 0; i < n; ++i) {
    if (host[i] != 3 * i + 3) {
      printf("%d: %d\n", i, host[i]);
      return 1;
    }
  }
  // Copies still work when it is no longer page-locked.
  CHECK(cudaMemcpy(dev, host, bytes, cudaMemcpyHostToDevice));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(dev));
  free(host);
  puts("ok");
}
