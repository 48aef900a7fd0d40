// The second file of separate_compilation.
__device__ int shared_counter = 1000;

__device__ __noinline__ int twice_and_count(int x) {
  atomicAdd(&shared_counter, 1);
  return 2 * x;
}

__global__ void in_the_other_file(int* out) {
  out[threadIdx.x] += 5;
}
