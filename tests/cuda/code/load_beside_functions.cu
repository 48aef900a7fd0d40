// nvcc: -lcuda
// Loads, first launches and unloads code, and makes streams, while host
// functions of this and of another thread run. A driver may wait for all
// streams then, but the functions must still run.
#include "../check.hpp"

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#define OK(call) EXPECT((call) == CUDA_SUCCESS)

static std::atomic<int> ended{0};

static void CUDART_CB take_a_moment(void*) {
  auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds{2};
  while (std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  ++ended;
}

__global__ void add(int* to, int what) {
  *to += what;
}

// Returns a kernel that adds a number of its own, so that its code is new.
static std::string image(int i) {
  return ".version 7.8\n.target sm_75\n.address_size 64\n.visible .global "
         ".align 4 .u32 many = " +
         std::to_string(i) +
         ";\n.visible .entry k(.param .u64 to) {\n  .reg .b64 %a;\n  .reg .b32 "
         "%v, %w;\n  ld.param.u64 %a, [to];\n  cvta.to.global.u64 %a, %a;\n  "
         "ld.global.u32 %v, [%a];\n  ld.global.u32 %w, [many];\n  add.u32 %v, "
         "%v, %w;\n  st.global.u32 [%a], %v;\n  ret;\n}\n";
}

int main() {
  constexpr int rounds = 40;
  int* sums;
  CHECK(cudaMalloc(&sums, 3 * sizeof(int)));
  CHECK(cudaMemset(sums, 0, 3 * sizeof(int)));
  CUcontext current;
  OK(cuCtxGetCurrent(&current));
  std::atomic<bool> done{false};
  std::atomic<int> begun{0};
  // Enqueues functions continuously, each between two kernels.
  std::thread calls([&] {
    OK(cuCtxSetCurrent(current));
    cudaStream_t s;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    while (!done) {
      add<<<1, 1, 0, s>>>(sums + 1, 1);
      CHECK(cudaLaunchHostFunc(s, take_a_moment, nullptr));
      add<<<1, 1, 0, s>>>(sums + 1, 1);
      ++begun;
      if (begun % 4 == 0)
        CHECK(cudaStreamSynchronize(s));
    }
    CHECK(cudaStreamSynchronize(s));
    CHECK(cudaStreamDestroy(s));
  });
  cudaStream_t s;
  CHECK(cudaStreamCreate(&s));
  int expected = 0;
  for (int i = 1; i <= rounds; ++i) {
    CHECK(cudaLaunchHostFunc(s, take_a_moment, nullptr));
    CUmodule module;
    OK(cuModuleLoadData(&module, image(i).c_str()));
    CUfunction kernel;
    OK(cuModuleGetFunction(&kernel, module, "k"));
    CHECK(cudaLaunchHostFunc(s, take_a_moment, nullptr));
    void* parameters[] = {&sums};
    OK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, s, parameters, nullptr));
    expected += i;
    CHECK(cudaLaunchHostFunc(s, take_a_moment, nullptr));
    OK(cuModuleUnload(module));
    cudaStream_t another;
    CHECK(cudaLaunchHostFunc(s, take_a_moment, nullptr));
    CHECK(cudaStreamCreateWithPriority(&another, cudaStreamNonBlocking,
                                       -(i % 6)));
    add<<<1, 1, 0, another>>>(sums + 2, 1);
    CHECK(cudaStreamSynchronize(another));
    CHECK(cudaStreamDestroy(another));
  }
  CHECK(cudaStreamSynchronize(s));
  done = true;
  calls.join();
  int got[3];
  CHECK(cudaMemcpy(got, sums, sizeof got, cudaMemcpyDeviceToHost));
  EXPECT(got[0] == expected && got[1] == 2 * begun && got[2] == rounds);
  EXPECT(ended == 4 * rounds + begun);
  std::puts("ok");
}
