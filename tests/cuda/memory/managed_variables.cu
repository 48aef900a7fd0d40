// __managed__ variables: host and device read and write them by name, in either
// order, together with ordinary device variables.
#include "../check.hpp"

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

__managed__ int counter = 41;
__device__ int hidden = 5;
__managed__ double table[3000] = {1.5, 2.5};
__managed__ int* pointer = nullptr;
__device__ int beside = 9;

struct settings {
  int rounds;
  float factor;
};
__managed__ settings how = {3, 0.5f};

__global__ void work() {
  counter += how.rounds;
  table[2] = table[0] + table[1] + how.factor;
  table[2999] = hidden + beside;
  ++hidden;
  if (pointer != nullptr)
    *pointer = counter;
}

int main() {
  // The host touches it first, before any call.
  EXPECT(counter == 41);
  EXPECT(table[1] == 2.5 && table[2] == 0);
  ++counter;
  how.rounds = 8;
  work<<<1, 1>>>();
  CHECK(cudaDeviceSynchronize());
  EXPECT(counter == 50);
  EXPECT(table[2] == 4.5 && table[2999] == 14);
  CHECK(cudaMallocManaged(&pointer, sizeof(int)));
  *pointer = 0;
  table[0] = 10;
  work<<<1, 1>>>();
  CHECK(cudaDeviceSynchronize());
  EXPECT(counter == 58 && *pointer == 58);
  EXPECT(table[2] == 13 && table[2999] == 15);
  int value = 0;
  CHECK(cudaMemcpyFromSymbol(&value, hidden, sizeof value));
  EXPECT(value == 7);
  CHECK(cudaMemcpyFromSymbol(&value, counter, sizeof value));
  EXPECT(value == 58);
  value = 100;
  CHECK(cudaMemcpyToSymbol(counter, &value, sizeof value));
  EXPECT(counter == 100);
  cudaPointerAttributes a;
  CHECK(cudaPointerGetAttributes(&a, &counter));
  EXPECT(a.type == cudaMemoryTypeManaged);
  CHECK(cudaFree(pointer));
  std::printf("ok\n");
}
