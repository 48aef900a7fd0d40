// Keeps its GPU busy until a file appears, and then checks that every step was
// made once, and prints how long its longest round took. It sleeps between its
// steps, so that many such programs leave processor time for others on a host
// with the cpu device.
//
//   steady FILE
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
#include <vector>

namespace {

constexpr unsigned factor = 1664525u, summand = 1013904223u;
constexpr unsigned blocks = 8, threads = 128, steps = 2'000;
constexpr unsigned naps = 20, nap_ns = 1'000'000;

__global__ void advance(unsigned* words) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned x = words[i];
  for (unsigned k = 0; k < steps; ++k)
    x = x * factor + summand;
  for (unsigned k = 0; k < naps; ++k)
    __nanosleep(nap_ns);
  words[i] = x;
}

void check(cudaError_t x) {
  if (x == cudaSuccess)
    return;
  std::fprintf(stderr, "steady: %s\n", cudaGetErrorString(x));
  std::exit(1);
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 2)
    return 2;
  std::vector<unsigned> expected(blocks * threads), got(blocks * threads);
  for (unsigned i = 0; i < expected.size(); ++i)
    expected[i] = i * 2654435761u;
  auto bytes = expected.size() * sizeof(unsigned);
  unsigned* words = nullptr;
  check(cudaMalloc(&words, bytes));
  check(cudaMemcpy(words, expected.data(), bytes, cudaMemcpyHostToDevice));
  // x * c + d is all steps of a round in one, and x * a + b all steps so far.
  unsigned a = 1, b = 0, c = 1, d = 0, rounds = 0;
  for (unsigned k = 0; k < steps; ++k) {
    c *= factor;
    d = d * factor + summand;
  }
  double longest = 0;
  do {
    auto begun = std::chrono::steady_clock::now();
    advance<<<blocks, threads>>>(words);
    check(cudaDeviceSynchronize());
    std::chrono::duration<double, std::milli> took =
        std::chrono::steady_clock::now() - begun;
    // The first round loads the kernel.
    if (rounds != 0)
      longest = std::max(longest, took.count());
    a *= c;
    b = b * c + d;
    ++rounds;
  } while (access(argv[1], F_OK) != 0);
  check(cudaMemcpy(got.data(), words, bytes, cudaMemcpyDeviceToHost));
  for (auto& x : expected)
    x = x * a + b;
  if (got != expected) {
    std::fprintf(stderr, "steady: WRONG after %u rounds\n", rounds);
    return 1;
  }
  std::printf("longest round %.1f ms\n%u rounds\n", longest, rounds);
  return 0;
}
