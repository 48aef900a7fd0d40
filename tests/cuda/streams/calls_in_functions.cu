// A host function that calls CUDA is refused instead of waiting for itself, and
// the program goes on.
#include "../check.hpp"

#include <cstdio>

namespace {

struct answers {
  cudaStream_t stream;
  cudaError_t device, stream_wait, copy, allocation;
};

void CUDART_CB ask(void* p) {
  auto* x = static_cast<answers*>(p);
  void* memory = nullptr;
  int here = 0, there = 1;
  x->device = cudaDeviceSynchronize();
  x->stream_wait = cudaStreamSynchronize(x->stream);
  x->copy = cudaMemcpy(&here, &there, sizeof here, cudaMemcpyDefault);
  x->allocation = cudaMalloc(&memory, 16);
}

void CUDART_CB ask_in_callback(cudaStream_t, cudaError_t, void* p) {
  ask(p);
}

void expect_refusals(const answers& x) {
  EXPECT(x.device == cudaErrorNotPermitted);
  EXPECT(x.stream_wait == cudaErrorNotPermitted);
  EXPECT(x.copy == cudaErrorNotPermitted);
  EXPECT(x.allocation == cudaErrorNotPermitted);
}

} // namespace

int main() {
  answers function{}, callback{};
  CHECK(cudaStreamCreate(&function.stream));
  callback.stream = function.stream;
  CHECK(cudaLaunchHostFunc(function.stream, ask, &function));
  CHECK(cudaStreamAddCallback(callback.stream, ask_in_callback, &callback, 0));
  CHECK(cudaStreamSynchronize(function.stream));
  expect_refusals(function);
  expect_refusals(callback);
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, 16));
  CHECK(cudaGetLastError());
  CHECK(cudaFree(memory));
  CHECK(cudaStreamDestroy(function.stream));
  std::puts("ok");
}
