// A program that maps memory at random addresses before it uses CUDA, like V8
// (Node.js) and Chromium, which choose addresses below 64 TiB.
#include "../check.hpp"

#include <cstdint>
#include <random>
#include <vector>

#include <sys/mman.h>

__global__ void add(int* x) {
  x[threadIdx.x] += threadIdx.x;
}

int main() {
  constexpr auto bytes = std::size_t{256} << 10;
  auto random = std::mt19937_64{5};
  for (int i = 0; i < 1000; ++i) {
    auto hint = random() & 0x3ffffffff000;
    auto at = mmap(reinterpret_cast<void*>(hint), bytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT(at != MAP_FAILED);
  }
  constexpr auto count = 64;
  int* x;
  CHECK(cudaMalloc(&x, count * sizeof(int)));
  CHECK(cudaMemset(x, 0, count * sizeof(int)));
  add<<<1, count>>>(x);
  auto got = std::vector<int>(count);
  CHECK(cudaMemcpy(got.data(), x, count * sizeof(int), cudaMemcpyDefault));
  for (int i = 0; i < count; ++i)
    EXPECT(got[i] == i);
  CHECK(cudaFree(x));
  std::puts("PASSED");
}
