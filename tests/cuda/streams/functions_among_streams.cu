// Host functions in some of many streams, and more work in the others than fits
// into a GPU's queues, of which there are fewer than streams. All work must
// end, and work behind a function must see its writes.
#include "../check.hpp"

#include <atomic>
#include <cstdio>

constexpr int streams = 24;
constexpr int rounds = 3;
constexpr int launches = 400; // in each stream, each round

__global__ void add(unsigned* to, unsigned what) {
  *to += what;
}

static void CUDART_CB count(void* to) {
  ++*static_cast<std::atomic<unsigned>*>(to);
}

int main() {
  cudaStream_t s[streams];
  for (auto& x : s)
    CHECK(cudaStreamCreateWithFlags(&x, cudaStreamNonBlocking));
  unsigned* sums;
  CHECK(cudaMalloc(&sums, streams * sizeof(unsigned)));
  CHECK(cudaMemset(sums, 0, streams * sizeof(unsigned)));
  CHECK(cudaDeviceSynchronize());
  std::atomic<unsigned> called{0};
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < streams; ++i) {
      if (i % 3 == round % 3)
        CHECK(cudaLaunchHostFunc(s[i], count, &called));
      for (int k = 0; k < launches; ++k)
        add<<<1, 1, 0, s[i]>>>(sums + i, 1);
    }
    CHECK(cudaGetLastError());
  }
  for (auto& x : s)
    CHECK(cudaStreamSynchronize(x));
  EXPECT(called == rounds * streams / 3);
  unsigned got[streams];
  CHECK(cudaMemcpy(got, sums, sizeof(got), cudaMemcpyDeviceToHost));
  for (auto x : got)
    EXPECT(x == rounds * launches);
  for (auto& x : s)
    CHECK(cudaStreamDestroy(x));
  std::printf("ok\n");
}
