// Macros that end the program at an error of the CUDA runtime or driver, or at
// a failed expectation.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

inline const char* error_name(cudaError_t x) {
  return cudaGetErrorName(x);
}
/// Returns the name of an error. Programs that call the driver are linked with
/// it.
inline const char* error_name(CUresult x) {
  const char* name = nullptr;
  return cuGetErrorName(x, &name) == CUDA_SUCCESS ? name : "an unknown error";
}

/// Ends the program with 1 if a call fails.
#define CHECK(call)                                                            \
  do {                                                                         \
    auto check_result = (call);                                                \
    if (check_result != decltype(check_result){}) {                            \
      std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                \
                  error_name(check_result));                                   \
      std::exit(1);                                                            \
    }                                                                          \
  } while (0)

/// Ends the program with 1 if a condition is false.
#define EXPECT(what)                                                           \
  do {                                                                         \
    if (!(what)) {                                                             \
      std::printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #what);           \
      std::exit(1);                                                            \
    }                                                                          \
  } while (0)

/// Prints the result of a call, and ends the program with 1 if it differs from
/// that of a real driver (580, on an H200).
#define ANSWER(code, ...)                                                      \
  do {                                                                         \
    auto answer = (__VA_ARGS__);                                               \
    std::printf("  %s: %s\n", #__VA_ARGS__, error_name(answer));               \
    EXPECT(answer == code);                                                    \
  } while (0)
