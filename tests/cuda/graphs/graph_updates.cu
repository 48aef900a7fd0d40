// nvcc: -lcuda
// Updates of executable graphs, which pair nodes by their edges, and captures
// into a graph that the program has already.
#include "../check.hpp"

namespace {

__global__ void append(int* list, int value) {
  list[++list[0]] = value;
}

int* list;

void expect(int first, int second) {
  int got[3];
  CHECK(cudaMemcpy(got, list, sizeof got, cudaMemcpyDeviceToHost));
  EXPECT(got[0] == 2 && got[1] == first && got[2] == second);
  CHECK(cudaMemset(list, 0, sizeof(int)));
}

cudaGraphNode_t add(cudaGraph_t to, int value, const cudaGraphNode_t* after) {
  cudaKernelNodeParams what = {};
  void* parameters[] = {&list, &value};
  what.func = reinterpret_cast<void*>(append);
  what.gridDim = what.blockDim = 1;
  what.kernelParams = parameters;
  cudaGraphNode_t out;
  CHECK(cudaGraphAddKernelNode(&out, to, after, after != nullptr, &what));
  return out;
}

void updated() {
  cudaGraph_t first, second, shorter;
  cudaGraphExec_t exec;
  CHECK(cudaGraphCreate(&first, 0));
  auto a = add(first, 1, nullptr);
  add(first, 2, &a);
  CHECK(cudaGraphInstantiate(&exec, first, 0));
  CHECK(cudaGraphLaunch(exec, nullptr));
  CHECK(cudaDeviceSynchronize());
  expect(1, 2);
  // The same chain, whose nodes were made in the other order.
  CHECK(cudaGraphCreate(&second, 0));
  auto late = add(second, 20, nullptr);
  auto early = add(second, 10, nullptr);
  CHECK(cudaGraphAddDependencies(second, &early, &late, nullptr, 1));
  cudaGraphExecUpdateResultInfo info;
  CHECK(cudaGraphExecUpdate(exec, second, &info));
  EXPECT(info.result == cudaGraphExecUpdateSuccess);
  CHECK(cudaGraphLaunch(exec, nullptr));
  CHECK(cudaDeviceSynchronize());
  expect(10, 20);

  CHECK(cudaGraphCreate(&shorter, 0));
  add(shorter, 1, nullptr);
  EXPECT(cudaGraphExecUpdate(exec, shorter, &info) ==
         cudaErrorGraphExecUpdateFailure);
  EXPECT(info.result == cudaGraphExecUpdateErrorTopologyChanged);
  EXPECT(info.errorNode == nullptr);
  (void)cudaGetLastError();
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(first));
  CHECK(cudaGraphDestroy(second));
  CHECK(cudaGraphDestroy(shorter));
}

void captured_into() {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaGraphCreate(&graph, 0));
  auto a = add(graph, 3, nullptr);
  CHECK(cudaStreamBeginCaptureToGraph(stream, graph, &a, nullptr, 1,
                                      cudaStreamCaptureModeGlobal));
  append<<<1, 1, 0, stream>>>(list, 4);
  CHECK(cudaStreamEndCapture(stream, nullptr));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  expect(3, 4);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(stream));
}

} // namespace

int main() {
  CHECK(cudaMalloc(&list, 16 * sizeof *list));
  CHECK(cudaMemset(list, 0, 16 * sizeof *list));
  updated();
  captured_into();
  std::puts("ok");
}
