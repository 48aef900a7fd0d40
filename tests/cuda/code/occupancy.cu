// The driver's occupancy: how many blocks fit on a multiprocessor.
#include <cstdio>

__global__ void small(int* out) {
  out[threadIdx.x] = 1;
}

__global__ void __launch_bounds__(128) bounded(int* out) {
  out[threadIdx.x] = 2;
}

extern __shared__ int scratch[];
__global__ void hungry(int* out) {
  scratch[threadIdx.x] = 3;
  __syncthreads();
  out[threadIdx.x] = scratch[blockDim.x - 1 - threadIdx.x];
}

#define OK(e)                                                                  \
  do {                                                                         \
    cudaError_t r = (e);                                                       \
    if (r != cudaSuccess) {                                                    \
      printf(#e ": %s\n", cudaGetErrorName(r));                                \
      return 1;                                                                \
    }                                                                          \
  } while (0)

int main() {
  int few = 0, many = 0, none = -1;
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&few, small, 1024, 0));
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&many, small, 64, 0));
  if (few < 1 || many < few) {
    printf("%d blocks of 1024 and %d of 64\n", few, many);
    return 1;
  }
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&none, hungry, 64,
                                                            40 * 1024, 0));
  if (none < 1 || none > many) {
    printf("%d blocks with 40 KiB of shared memory\n", none);
    return 1;
  }
  int grid = 0, block = 0;
  OK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, small, 0, 0));
  if (block < 32 || block > 1024 || grid < 1) {
    printf("suggested %d x %d\n", grid, block);
    return 1;
  }
  OK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, bounded, 0, 0));
  if (block < 32 || block > 128) {
    printf("suggested %d threads to a kernel bounded to 128\n", block);
    return 1;
  }
  cudaFuncAttributes a;
  OK(cudaFuncGetAttributes(&a, bounded));
  if (a.maxThreadsPerBlock != 128) {
    printf("bounded kernel takes %d threads\n", a.maxThreadsPerBlock);
    return 1;
  }
  OK(cudaFuncGetAttributes(&a, small));
  if (a.maxThreadsPerBlock != 1024 || a.numRegs < 1 || a.sharedSizeBytes) {
    printf("small: %d threads, %d registers\n", a.maxThreadsPerBlock,
           a.numRegs);
    return 1;
  }
  size_t dynamic = 0;
  OK(cudaOccupancyAvailableDynamicSMemPerBlock(&dynamic, hungry, 1, 64));
  if (dynamic < 40 * 1024) {
    printf("%zu bytes of dynamic shared memory\n", dynamic);
    return 1;
  }
  printf("ok\n");
}
