// Queries the attributes of pointers.
#include <cstdio>
#include <cstdlib>

__device__ int global;

static int line_of_failure(void* pinned, char* dev, void* symbol) {
  cudaPointerAttributes a;
  int local = 0;
  if (cudaPointerGetAttributes(&a, dev) != cudaSuccess ||
      a.type != cudaMemoryTypeDevice || a.device != 0 ||
      a.devicePointer != dev || a.hostPointer)
    return __LINE__;
  if (cudaPointerGetAttributes(&a, dev + 1000) != cudaSuccess ||
      a.type != cudaMemoryTypeDevice)
    return __LINE__;
  if (cudaPointerGetAttributes(&a, pinned) != cudaSuccess ||
      a.type != cudaMemoryTypeHost || a.hostPointer != pinned)
    return __LINE__;
  if (cudaPointerGetAttributes(&a, &local) != cudaSuccess ||
      a.type != cudaMemoryTypeUnregistered)
    return __LINE__;
  if (cudaPointerGetAttributes(&a, symbol) != cudaSuccess ||
      a.type != cudaMemoryTypeDevice)
    return __LINE__;
  return 0;
}

int main() {
  void *pinned, *symbol;
  char* dev;
  if (cudaMallocHost(&pinned, 100) || cudaMalloc(&dev, 5000) ||
      cudaGetSymbolAddress(&symbol, global))
    return 1;
  if (int line = line_of_failure(pinned, dev, symbol)) {
    printf("line %d\n", line);
    return 1;
  }
  // The runtime finds the direction of a copy from the pointers.
  int values[2] = {1234, 0};
  if (cudaMemcpy(pinned, values, 4, cudaMemcpyDefault) ||
      cudaMemcpy(dev, pinned, 4, cudaMemcpyDefault) ||
      cudaMemcpy(symbol, dev, 4, cudaMemcpyDefault) ||
      cudaMemcpy(values + 1, symbol, 4, cudaMemcpyDefault) ||
      values[1] != 1234) {
    printf("copies by pointer: %d\n", values[1]);
    return 1;
  }
  cudaFreeHost(pinned);
  cudaFree(dev);
  printf("ok\n");
}
