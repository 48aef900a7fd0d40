// With CUDA_LAUNCH_BLOCKING=1, a launch returns when its kernel has ended, and
// returns the kernel's error.
// nvcc: -lcuda
#include "../check.hpp"

#include <cstdlib>

#include <sys/wait.h>
#include <unistd.h>

__global__ void spin(unsigned long long nanoseconds) {
  unsigned long long now, begin;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - begin < nanoseconds);
}

__global__ void stray(int* p) {
  *p = 1;
}

static void launches_wait() {
  cudaStream_t a, b;
  CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
  CHECK(cudaStreamCreate(&b));
  for (auto s : {cudaStream_t{}, a, b}) {
    spin<<<1, 1, 0, s>>>(200'000'000);
    CHECK(cudaGetLastError());
    EXPECT(cudaStreamQuery(s) == cudaSuccess);
  }
  cudaLaunchConfig_t how{};
  how.gridDim = how.blockDim = 1;
  how.stream = a;
  CHECK(cudaLaunchKernelEx(&how, spin, 200'000'000ull));
  EXPECT(cudaStreamQuery(a) == cudaSuccess);
  unsigned long long nanoseconds = 200'000'000;
  void* arguments[] = {&nanoseconds};
  CHECK(cudaLaunchCooperativeKernel(spin, 1, 1, arguments, 0, a));
  EXPECT(cudaStreamQuery(a) == cudaSuccess);
}

static void captures_do_not() {
  cudaStream_t s;
  cudaGraph_t graph;
  CHECK(cudaStreamCreate(&s));
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  spin<<<1, 1, 0, s>>>(1);
  CHECK(cudaGetLastError());
  CHECK(cudaStreamEndCapture(s, &graph));
  size_t nodes = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT(nodes == 1);
}

static void launches_tell() {
  stray<<<1, 1>>>(reinterpret_cast<int*>(0x10));
  EXPECT(cudaGetLastError() == cudaErrorIllegalAddress);
}

static int in_child(const char* value, void (*body)()) {
  auto child = fork();
  if (child == 0) {
    setenv("CUDA_LAUNCH_BLOCKING", value, 1);
    body();
    _exit(0);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  return status;
}

int main() {
  EXPECT(in_child("1", launches_wait) == 0);
  EXPECT(in_child("1", captures_do_not) == 0);
  EXPECT(in_child("1", launches_tell) == 0);
  EXPECT(in_child("0", [] {
           stray<<<1, 1>>>(reinterpret_cast<int*>(0x10));
           EXPECT(cudaGetLastError() == cudaSuccess);
           EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
         }) == 0);
  std::puts("ok");
}
