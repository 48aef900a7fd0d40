// Functions for tests of NVIDIA's checkpoint: device memory whose words all
// differ, and the driver's entry points.
#pragma once

#include <cuda_runtime.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

static void check(int code, const char* what) {
  if (code == 0)
    return;
  std::fprintf(stderr, "%s: %s: error %d\n", program_invocation_short_name,
               what, code);
  std::_Exit(9);
}

static double now() {
  using seconds = std::chrono::duration<double>;
  return seconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class F>
static F* entry(const char* name) {
  void* out = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check(cudaGetDriverEntryPointByVersion(name, &out, 12080, cudaEnableDefault,
                                         &found),
        name);
  check(out == nullptr ? 1 : 0, name);
  return reinterpret_cast<F*>(out);
}

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
