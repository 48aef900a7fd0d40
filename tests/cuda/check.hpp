// Stopping at an error of the CUDA runtime, for programs whose main() checks.
#pragma once

#include <cstdio>

/// Leaves the function with 1 where the call fails.
#define CHECK(call)                                                            \
  do {                                                                         \
    cudaError_t e = (call);                                                    \
    if (e != cudaSuccess) {                                                    \
      printf("%s: %s\n", #call, cudaGetErrorString(e));                        \
      return 1;                                                                \
    }                                                                          \
  } while (0)
