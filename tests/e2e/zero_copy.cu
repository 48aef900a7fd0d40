// Uses pinned memory that kernels and the program write in place. The result of
// a round depends on all earlier writes of both. Prints one line per round, and
// then writes again without a driver call until the next launch.
// usage: zero_copy [ROUNDS [TOLD]]; where TOLD is not 0, a round ends with a
// line from the standard input
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define CHECK(call)                                                            \
  do {                                                                         \
    if (auto check_code = (call); check_code != cudaSuccess) {                 \
      std::printf("%s: %s\n", #call, cudaGetErrorName(check_code));            \
      std::exit(1);                                                            \
    }                                                                          \
  } while (0)

constexpr int n = 5000;

__global__ void mix(unsigned* x, const unsigned* y) {
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    x[i] = x[i] * 1664525u + y[i];
}

unsigned fold(const unsigned* x) {
  unsigned out = 2166136261u;
  for (int i = 0; i < n; ++i)
    out = (out ^ x[i]) * 16777619u;
  return out;
}

int main(int argc, char** argv) {
  auto rounds = static_cast<unsigned>(argc > 1 ? std::atoi(argv[1]) : 12);
  auto told = argc > 2 && std::atoi(argv[2]) != 0;
  unsigned *x = nullptr, *y = nullptr;
  CHECK(cudaMallocHost(&x, n * sizeof(unsigned)));
  CHECK(cudaHostAlloc(&y, n * sizeof(unsigned), cudaHostAllocMapped));
  for (int i = 0; i < n; ++i)
    x[i] = static_cast<unsigned>(i);
  for (unsigned round = 1; round <= rounds; ++round) {
    for (unsigned i = 0; i < n; ++i)
      y[i] = i * round;
    mix<<<1, 256>>>(x, y);
    mix<<<1, 256>>>(x, y);
    CHECK(cudaDeviceSynchronize());
    std::printf("round %u: %08x\n", round, fold(x));
    std::fflush(stdout);
    for (unsigned i = round % 7; i < n; i += 7)
      x[i] += round;
    while (told && std::getchar() != '\n')
      if (std::feof(stdin))
        return 1;
  }
  CHECK(cudaFreeHost(x));
  CHECK(cudaFreeHost(y));
}
