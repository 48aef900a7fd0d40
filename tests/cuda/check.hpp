// Stopping at an error of the CUDA runtime or driver, or at what is not as it
// should be.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

inline const char* error_name(cudaError_t x) {
  return cudaGetErrorName(x);
}
/// Whoever checks a call of the driver is linked with it.
inline const char* error_name(CUresult x) {
  const char* name = nullptr;
  return cuGetErrorName(x, &name) == CUDA_SUCCESS ? name : "an unknown error";
}

/// Ends the program with 1 where a call fails.
#define CHECK(call)                                                            \
  do {                                                                         \
    auto check_result = (call);                                                \
    if (check_result != decltype(check_result){}) {                            \
      std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                \
                  error_name(check_result));                                   \
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

/// Tells what a call answers; ends the program with 1 where a real driver (580,
/// on an H200) answers something else.
#define ANSWER(code, ...)                                                      \
  do {                                                                         \
    auto answer = (__VA_ARGS__);                                               \
    std::printf("  %s: %s\n", #__VA_ARGS__, error_name(answer));               \
    EXPECT(answer == code);                                                    \
  } while (0)
