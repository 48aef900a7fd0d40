// Two files that are linked on the device. This one uses a function and a
// variable of the other.
// nvcc: -rdc=true
#include <cstdio>

extern __device__ int shared_counter;
__device__ int twice_and_count(int x);
__global__ void in_the_other_file(int* out);

__global__ void in_this_file(int* out) {
  out[threadIdx.x] = twice_and_count(threadIdx.x);
}

int main() {
  int *dev, got[32];
  if (cudaMalloc(&dev, sizeof got) != cudaSuccess)
    return 1;
  in_this_file<<<1, 32>>>(dev);
  in_the_other_file<<<1, 32>>>(dev);
  cudaError_t e = cudaMemcpy(got, dev, sizeof got, cudaMemcpyDeviceToHost);
  int count = 0;
  cudaMemcpyFromSymbol(&count, shared_counter, sizeof count);
  if (e != cudaSuccess || count != 1032) {
    printf("%s, counted %d\n", cudaGetErrorString(e), count);
    return 1;
  }
  for (int i = 0; i < 32; ++i) {
    if (got[i] != 2 * i + 5) {
      printf("%d: %d\n", i, got[i]);
      return 1;
    }
  }
  printf("ok\n");
}
