// Copies data from page-locked memory to the device and back.
#include "../check.hpp"

#include <cstdio>
#include <cstdlib>

__global__ void invert(unsigned* data, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    data[i] = ~data[i];
}

int main() {
  const int n = 300001;
  const size_t bytes = n * sizeof(unsigned);
  unsigned *up, *back, *dev;
  CHECK(cudaHostAlloc(&up, bytes, cudaHostAllocDefault));
  CHECK(cudaMallocHost(&back, bytes));
  CHECK(cudaMalloc(&dev, bytes));
  for (int i = 0; i < n; ++i) {
    up[i] = i * 7u;
    back[i] = 0;
  }
  CHECK(cudaMemcpyAsync(dev, up, bytes, cudaMemcpyHostToDevice));
  invert<<<(n + 127) / 128, 128>>>(dev, n);
  CHECK(cudaMemcpyAsync(back, dev, bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaStreamSynchronize(0));
  for (int i = 0; i < n; ++i) {
    if (back[i] != ~(i * 7u) || up[i] != i * 7u) {
      printf("element %d is %u\n", i, back[i]);
      return 1;
    }
  }
  unsigned flags = 99;
  CHECK(cudaHostGetFlags(&flags, up));
  CHECK(cudaFree(dev));
  CHECK(cudaFreeHost(up));
  CHECK(cudaFreeHost(back));
  printf("ok\n");
}
