// Device memory whose words all differ, and whether it is still so.
#pragma once

#include <cstddef>

__global__ void write_all(unsigned* to, size_t words) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < words;
       i += size_t{gridDim.x} * blockDim.x)
    to[i] = static_cast<unsigned>(i * 2654435761u);
}

__global__ void count_wrong(const unsigned* from, size_t words,
                            unsigned long long* wrong) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < words;
       i += size_t{gridDim.x} * blockDim.x)
    if (from[i] != static_cast<unsigned>(i * 2654435761u))
      atomicAdd(wrong, 1ull);
}
