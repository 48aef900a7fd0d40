// nvcc: --default-stream per-thread
// Each thread's default stream is its own: while a host function holds back the
// default stream of one thread, another thread's first work, which makes its
// stream, runs and ends. The function returns only after that.
#include "../check.hpp"

#include <atomic>
#include <cstdio>
#include <thread>

__global__ void add(unsigned* to, unsigned what) {
  *to += what;
}

static void CUDART_CB hold(void* go) {
  while (!*static_cast<std::atomic<bool>*>(go))
    std::this_thread::yield();
}

int main() {
  unsigned* word;
  CHECK(cudaMallocHost(&word, sizeof(*word)));
  *word = 4;
  unsigned* own;
  CHECK(cudaMalloc(&own, sizeof(*own)));
  CHECK(cudaMemset(own, 0, sizeof(*own)));
  add<<<1, 1>>>(own, 1); // loads the kernel
  unsigned* gone;
  CHECK(cudaMalloc(&gone, sizeof(*gone)));
  CHECK(cudaFree(gone));
  CHECK(cudaDeviceSynchronize());

  std::atomic<bool> go{false};
  CHECK(cudaLaunchHostFunc(0, hold, &go));
  add<<<1, 1>>>(own, 2);
  CHECK(cudaGetLastError());
  std::thread other([&] {
    add<<<1, 1>>>(word, 5);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(0));
    EXPECT(*static_cast<volatile unsigned*>(word) == 9);
    // Memory that this stream frees is no concern of the other.
    unsigned* pooled;
    CHECK(
        cudaMallocAsync(reinterpret_cast<void**>(&pooled), sizeof(*pooled), 0));
    CHECK(cudaMemsetAsync(pooled, 0, sizeof(*pooled), 0));
    CHECK(cudaFreeAsync(pooled, 0));
    add<<<1, 1>>>(word, 0);
    CHECK(cudaStreamSynchronize(0));
    // A stream that a thread makes by itself is served in the same way.
    cudaStream_t made;
    CHECK(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    add<<<1, 1, 0, made>>>(word, 7);
    CHECK(cudaStreamSynchronize(made));
    CHECK(cudaStreamDestroy(made));
  });
  other.join();
  EXPECT(cudaStreamQuery(0) == cudaErrorNotReady);
  EXPECT(*word == 16);
  go = true;
  CHECK(cudaStreamSynchronize(0));
  unsigned got = 0;
  CHECK(cudaMemcpy(&got, own, sizeof(got), cudaMemcpyDeviceToHost));
  EXPECT(got == 3);
  CHECK(cudaFree(own));
  CHECK(cudaFreeHost(word));
  std::printf("ok\n");
}
