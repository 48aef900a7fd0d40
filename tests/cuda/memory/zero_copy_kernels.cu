// Host memory that kernels and the program write while the other one reads,
// with the same address on both sides.
#include "../check.hpp"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

namespace {

constexpr int n = 3000; // not a multiple of a page

__global__ void add(int* x, const int* y, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    x[i] += y[i];
}

/// Writes the even bytes. The program writes the odd ones.
__global__ void write_even(unsigned char* x, int count, unsigned char value) {
  int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count)
    x[i] = value;
}

struct desk {
  volatile int ask;
  volatile int answer;
  volatile int stop;
};

/// Answers questions until the program sets the stop word.
__global__ void serve(desk* x) {
  while (x->stop == 0) {
    auto asked = x->ask;
    if (asked != x->answer) {
      x->answer = asked;
      __threadfence_system();
    }
  }
}

__global__ void flag(volatile int* x, int value) {
  *x = value;
}

template <class T>
T* pinned(size_t count) {
  void* x = nullptr;
  CHECK(cudaHostAlloc(&x, count * sizeof(T), cudaHostAllocDefault));
  memset(x, 0, count * sizeof(T));
  return static_cast<T*>(x);
}

/// Each round continues with the sums of the previous one and the program's
/// additions.
void to_and_fro() {
  auto* x = pinned<int>(n);
  auto* y = pinned<int>(n);
  std::vector<int> expected(n);
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < n; ++i)
      y[i] = i * round;
    x[round] += 1000;
    expected[round] += 1000;
    for (int i = 0; i < n; ++i)
      expected[i] += y[i];
    add<<<(n + 255) / 256, 256>>>(x, y, n);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < n; ++i)
      EXPECT(x[i] == expected[i]);
  }
  CHECK(cudaFreeHost(x));
  CHECK(cudaFreeHost(y));
}

/// Both write neighbouring bytes of one word, without waiting in between.
void side_by_side() {
  auto* x = pinned<unsigned char>(n);
  for (int round = 1; round < 20; ++round) {
    write_even<<<(n / 2 + 255) / 256, 256>>>(x, n,
                                             static_cast<unsigned char>(round));
    for (int i = 1; i < n; i += 2)
      x[i] = static_cast<unsigned char>(100 + round);
  }
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < n; ++i)
    EXPECT(x[i] == (i % 2 == 0 ? 19 : 119));
  CHECK(cudaFreeHost(x));
}

/// Checks that kernels and program see the results of copies, too.
void beside_copies() {
  auto* x = pinned<int>(n);
  auto* y = pinned<int>(n);
  int* d = nullptr;
  CHECK(cudaMalloc(&d, n * sizeof(int)));
  std::vector<int> ones(n, 1);
  for (int round = 0; round < 5; ++round) {
    CHECK(cudaMemcpy(d, ones.data(), n * sizeof(int), cudaMemcpyDefault));
    CHECK(cudaMemcpy(y, d, n * sizeof(int), cudaMemcpyDefault));
    add<<<(n + 255) / 256, 256>>>(x, y, n);
    CHECK(cudaStreamSynchronize(nullptr));
    EXPECT(x[n - 1] == round + 1);
    CHECK(cudaMemcpy(d, x, n * sizeof(int), cudaMemcpyDefault));
    std::vector<int> back(n);
    CHECK(cudaMemcpy(back.data(), d, n * sizeof(int), cudaMemcpyDefault));
    EXPECT(back[0] == round + 1);
  }
  CHECK(cudaFree(d));
  CHECK(cudaFreeHost(x));
  CHECK(cudaFreeHost(y));
}

/// The program polls the memory without a driver call.
void looked_for() {
  auto* x = pinned<int>(1);
  volatile int* look = x;
  for (int i = 1; i < 6; ++i) {
    flag<<<1, 1>>>(x, i);
    while (*look != i)
      std::this_thread::yield();
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFreeHost(x));
}

/// Runs a kernel that answers a question, and ends when the program sets the
/// stop word.
void told_to_stop() {
  auto* x = pinned<desk>(1);
  serve<<<1, 1>>>(x);
  x->ask = 7;
  EXPECT(cudaStreamQuery(nullptr) == cudaErrorNotReady);
  while (x->answer != 7)
    std::this_thread::yield();
  x->stop = 1;
  CHECK(cudaDeviceSynchronize());
  EXPECT(x->answer == 7);
  CHECK(cudaFreeHost(x));
}

struct handed {
  int* x;
  int seen;
};

void CUDART_CB on_host(void* p) {
  auto* h = static_cast<handed*>(p);
  h->seen = h->x[0];
  h->x[0] = 50;
}

/// A host function sees the results of earlier work, and later work sees its
/// writes.
void among_functions() {
  auto* x = pinned<int>(1);
  auto* one = pinned<int>(1);
  *one = 1;
  handed h{x, -1};
  add<<<1, 1>>>(x, one, 1);
  CHECK(cudaLaunchHostFunc(nullptr, on_host, &h));
  add<<<1, 1>>>(x, one, 1);
  CHECK(cudaDeviceSynchronize());
  EXPECT(h.seen == 1);
  EXPECT(x[0] == 51);
  CHECK(cudaFreeHost(x));
  CHECK(cudaFreeHost(one));
}

} // namespace

int main() {
  to_and_fro();
  side_by_side();
  beside_copies();
  looked_for();
  told_to_stop();
  among_functions();
  std::printf("ok\n");
}
