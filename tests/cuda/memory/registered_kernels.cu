// Kernels and the program share memory of the program's own: a flag on the
// stack, as libraries use to loop until nothing changes, and parts of the heap.
#include "../check.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

/// Subtracts one from each positive word, and says whether there was one.
__global__ void step(int* x, int count, int* changed) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count && x[i] > 0) {
    --x[i];
    *changed = 1;
  }
}

__global__ void write_even(unsigned char* x, int count, unsigned char value) {
  int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count)
    x[i] = value;
}

__global__ void add(int* x, int count, int value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    x[i] += value;
}

template <class T>
T* in_kernels(T* host) {
  void* out = nullptr;
  CHECK(cudaHostGetDevicePointer(&out, host, 0));
  return static_cast<T*>(out);
}

enum class wait { stream, event, query, device, copy };

void await(wait how, cudaStream_t in, cudaEvent_t event, int* some) {
  switch (how) {
  case wait::stream:
    CHECK(cudaStreamSynchronize(in));
    break;
  case wait::event:
    CHECK(cudaEventRecord(event, in));
    CHECK(cudaEventSynchronize(event));
    break;
  case wait::query:
    while (cudaStreamQuery(in) == cudaErrorNotReady) {
    }
    CHECK(cudaGetLastError());
    break;
  case wait::device:
    CHECK(cudaDeviceSynchronize());
    break;
  case wait::copy: {
    int word = 0;
    CHECK(cudaMemcpy(&word, some, sizeof word, cudaMemcpyDeviceToHost));
    break;
  }
  }
}

/// Loops until a kernel leaves the flag alone.
void flag_on_the_stack(wait how, cudaStream_t in) {
  const int count = 300, most = 5;
  std::vector<int> start(count);
  for (int i = 0; i < count; ++i)
    start[i] = i % (most + 1);
  int* x = nullptr;
  CHECK(cudaMalloc(&x, count * sizeof(int)));
  CHECK(
      cudaMemcpy(x, start.data(), count * sizeof(int), cudaMemcpyHostToDevice));
  cudaEvent_t event;
  CHECK(cudaEventCreate(&event));
  volatile int before = 1234;
  volatile int changed = 1;
  volatile int after = 5678;
  CHECK(cudaHostRegister(const_cast<int*>(&changed), sizeof(int),
                         cudaHostRegisterMapped));
  auto* flag = in_kernels(const_cast<int*>(&changed));
  int rounds = 0;
  for (; changed != 0; ++rounds) {
    changed = 0;
    step<<<3, 100, 0, in>>>(x, count, flag);
    await(how, in, event, x);
  }
  EXPECT(rounds == most + 1);
  CHECK(cudaHostUnregister(const_cast<int*>(&changed)));
  EXPECT(before == 1234 && after == 5678);
  CHECK(cudaEventDestroy(event));
  CHECK(cudaFree(x));
}

/// The kernel writes the even bytes, and the program the odd ones. The range
/// begins and ends inside pages.
void both_sides() {
  const int count = 70001, edge = 133;
  std::vector<unsigned char> whole(count + 2 * edge, 9);
  auto* host = whole.data() + edge;
  CHECK(cudaHostRegister(host, count, cudaHostRegisterDefault));
  auto* device = in_kernels(host);
  EXPECT(in_kernels(host + 1000) == device + 1000);
  for (int round = 1; round <= 3; ++round) {
    for (int i = 1; i < count; i += 2)
      host[i] = static_cast<unsigned char>(100 + round);
    write_even<<<(count + 511) / 512, 256>>>(device, count,
                                             static_cast<unsigned char>(round));
    if (round == 3)
      break; // unregistering waits
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < count; ++i)
      EXPECT(host[i] == (i % 2 == 0 ? round : 100 + round));
  }
  CHECK(cudaHostUnregister(host));
  for (int i = 0; i < count; ++i)
    EXPECT(host[i] == (i % 2 == 0 ? 3 : 103));
  for (int i = 0; i < edge; ++i)
    EXPECT(whole[i] == 9 && whole[edge + count + i] == 9);
}

struct words {
  int* host = nullptr;
  int count = 0;
  bool were = true;
};

void CUDART_CB check_and_double(void* data) {
  auto& x = *static_cast<words*>(data);
  for (int i = 0; i < x.count; ++i) {
    x.were = x.were && x.host[i] == i + 10;
    x.host[i] *= 2;
  }
}

/// A host function and copies see the bytes in the stream's order.
void in_order(cudaStream_t in) {
  const int count = 5000;
  const size_t bytes = count * sizeof(int);
  std::vector<int> host(count), copied(count), last(count);
  int* x = nullptr;
  CHECK(cudaMalloc(&x, bytes));
  for (int i = 0; i < count; ++i)
    host[i] = i;
  CHECK(cudaHostRegister(host.data(), bytes, cudaHostRegisterMapped));
  auto* device = in_kernels(host.data());
  words seen{host.data(), count};
  add<<<(count + 255) / 256, 256, 0, in>>>(device, count, 10);
  CHECK(cudaLaunchHostFunc(in, check_and_double, &seen));
  add<<<(count + 255) / 256, 256, 0, in>>>(device, count, 1);
  // Read when the stream comes to it.
  CHECK(cudaMemcpyAsync(x, host.data(), bytes, cudaMemcpyHostToDevice, in));
  CHECK(cudaMemcpyAsync(host.data(), x, bytes, cudaMemcpyDeviceToHost, in));
  add<<<(count + 255) / 256, 256, 0, in>>>(device, count, 1);
  CHECK(cudaMemcpyAsync(copied.data(), device, bytes, cudaMemcpyDefault, in));
  CHECK(cudaStreamSynchronize(in));
  CHECK(cudaMemcpy(last.data(), x, bytes, cudaMemcpyDeviceToHost));
  EXPECT(seen.were);
  for (int i = 0; i < count; ++i) {
    EXPECT(last[i] == 2 * (i + 10) + 1);
    EXPECT(host[i] == 2 * (i + 10) + 2);
    EXPECT(copied[i] == host[i]);
  }
  CHECK(cudaHostUnregister(host.data()));
  CHECK(cudaFree(x));
}

/// A graph's kernel uses the memory as a launch's does.
void in_graphs(cudaStream_t in) {
  const int count = 600;
  std::vector<int> host(count, 1);
  CHECK(cudaHostRegister(host.data(), count * sizeof(int),
                         cudaHostRegisterMapped));
  auto* device = in_kernels(host.data());
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  CHECK(cudaStreamBeginCapture(in, cudaStreamCaptureModeGlobal));
  add<<<3, 200, 0, in>>>(device, count, 5);
  CHECK(cudaStreamEndCapture(in, &graph));
  CHECK(cudaGraphInstantiate(&ready, graph, 0));
  for (int round = 0; round < 3; ++round) {
    CHECK(cudaGraphLaunch(ready, in));
    CHECK(cudaStreamSynchronize(in));
    EXPECT(host[0] == 6 + 10 * round && host[count - 1] == host[0]);
    for (auto& word : host)
      word += 5;
  }
  CHECK(cudaGraphExecDestroy(ready));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaHostUnregister(host.data()));
}

} // namespace

int main() {
  cudaStream_t in;
  CHECK(cudaStreamCreate(&in));
  for (auto how : {wait::stream, wait::event, wait::query, wait::device})
    flag_on_the_stack(how, in);
  flag_on_the_stack(wait::copy, nullptr);
  both_sides();
  in_order(in);
  in_graphs(in);
  CHECK(cudaStreamDestroy(in));
  puts("ok");
}
