// Streams of two devices wait for each other's events in turns, so that each
// value is read before it is overwritten. With one device there is nothing to
// do.
#include "../check.hpp"

#include <cstdio>

__global__ void set_late(int* x, int value) {
  long long spent = 0;
  for (int k = 0; k < 300000; ++k)
    spent += k ^ value;
  x[blockIdx.x * blockDim.x + threadIdx.x] = spent == 1 ? 0 : value;
}

int main() {
  int devices;
  CHECK(cudaGetDeviceCount(&devices));
  if (devices < 2) {
    std::printf("ok\n");
    return 0;
  }
  constexpr int count = 256;
  int* x[2];
  cudaStream_t s[2];
  cudaEvent_t done[2];
  for (int d : {0, 1}) {
    CHECK(cudaSetDevice(d));
    CHECK(cudaMalloc(&x[d], count * sizeof(int)));
    CHECK(cudaStreamCreateWithFlags(&s[d], cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&done[d], cudaEventDisableTiming));
  }
  EXPECT(cudaEventRecord(done[1], s[0]) == cudaErrorInvalidResourceHandle);
  (void)cudaGetLastError();
  int* seen;
  constexpr int rounds = 4;
  CHECK(cudaMallocHost(&seen, rounds * count * sizeof(int)));
  CHECK(cudaStreamWaitEvent(s[0], done[1], 0)); // never recorded
  for (int i = 0; i < rounds; ++i) {
    CHECK(cudaSetDevice(0));
    set_late<<<1, count, 0, s[0]>>>(x[0], i + 1);
    CHECK(cudaEventRecord(done[0], s[0]));
    CHECK(cudaSetDevice(1));
    CHECK(cudaStreamWaitEvent(s[1], done[0], 0));
    CHECK(cudaMemcpyPeerAsync(x[1], 1, x[0], 0, count * sizeof(int), s[1]));
    CHECK(cudaMemcpyAsync(seen + i * count, x[1], count * sizeof(int),
                          cudaMemcpyDeviceToHost, s[1]));
    CHECK(cudaEventRecord(done[1], s[1]));
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamWaitEvent(s[0], done[1], 0));
  }
  // Waiting for this stream also waits for the other one.
  CHECK(cudaStreamSynchronize(s[0]));
  for (int i = 0; i < rounds * count; ++i)
    EXPECT(seen[i] == i / count + 1);
  for (int d : {0, 1}) {
    CHECK(cudaSetDevice(d));
    CHECK(cudaEventDestroy(done[d]));
    CHECK(cudaStreamDestroy(s[d]));
    CHECK(cudaFree(x[d]));
  }
  CHECK(cudaFreeHost(seen));
  std::printf("ok\n");
}
