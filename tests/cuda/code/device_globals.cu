// Global variables on the device: initial values, addresses, and values that
// one kernel leaves for the next.
#include <cstdio>
#include <cstdlib>

__device__ int counter = 100;
__device__ int table[8] = {1, 2, 4, 8, 16, 32, 64, 128};
__device__ int* into_table = &table[3];
__device__ unsigned long long total;

__global__ void visit() {
  atomicAdd(&counter, 1);
  atomicAdd(&total, (unsigned long long)table[threadIdx.x % 8]);
}

__global__ void read_through_pointer(int* out) {
  *out = *into_table;
}

#define REQUIRE(what)                                                          \
  if (!(what)) {                                                               \
    printf("line %d: " #what " does not hold\n", __LINE__);                    \
    return EXIT_FAILURE;                                                       \
  }

int main() {
  visit<<<10, 64>>>();
  int count = 0;
  REQUIRE(cudaMemcpyFromSymbol(&count, counter, sizeof count) == cudaSuccess);
  REQUIRE(count == 740);
  unsigned long long sum = 0;
  REQUIRE(cudaMemcpyFromSymbol(&sum, total, sizeof sum) == cudaSuccess);
  REQUIRE(sum == 10 * 8 * 255);

  // A copy by address must equal a copy by name.
  void* address = nullptr;
  REQUIRE(cudaGetSymbolAddress(&address, table) == cudaSuccess);
  int seen[8] = {};
  REQUIRE(cudaMemcpy(seen, address, sizeof seen, cudaMemcpyDeviceToHost) ==
          cudaSuccess);
  REQUIRE(seen[0] == 1 && seen[7] == 128);
  int value = 77;
  REQUIRE(cudaMemcpy(static_cast<int*>(address) + 3, &value, sizeof value,
                     cudaMemcpyHostToDevice) == cudaSuccess);
  int *out = nullptr, got = 0;
  REQUIRE(cudaMalloc(&out, sizeof *out) == cudaSuccess);
  read_through_pointer<<<1, 1>>>(out);
  REQUIRE(cudaMemcpy(&got, out, sizeof got, cudaMemcpyDeviceToHost) ==
          cudaSuccess);
  REQUIRE(got == 77);
  REQUIRE(cudaFree(out) == cudaSuccess);
  printf("ok\n");
}
