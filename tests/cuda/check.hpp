// Stopping at an error of the CUDA runtime, or at what is not as it should be.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

/// Ends the program with 1 where a call fails.
#define CHECK(call)                                                            \
  do {                                                                         \
    cudaError_t check_result = (call);                                         \
    if (check_result != cudaSuccess) {                                         \
      std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                \
                  cudaGetErrorName(check_result));                             \
      std::exit(1);                                                            \
    }                                                                          \
  } while (0)

/// Ends the program with 1 where something is not so.
#define EXPECT(what)                                                           \
  do {                                                                         \
    if (!(what)) {                                                             \
      std::printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #what);           \
      std::exit(1);                                                            \
    }                                                                          \
  } while (0)
