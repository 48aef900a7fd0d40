// Graphs: captured from streams that fork and join, built by hand, updated,
// cloned and launched many times.
#include "../check.hpp"

#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int n = 1 << 12;

__global__ void add(int* x, int by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    x[i] += by;
}

__global__ void scale(int* x, int by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    x[i] *= by;
}

__global__ void sum(const int* a, const int* b, int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    out[i] = a[i] + b[i];
}

int* make(int bytes) {
  int* p = nullptr;
  CHECK(cudaMalloc(&p, bytes));
  CHECK(cudaMemset(p, 0, bytes));
  return p;
}

int first_of(const int* device) {
  std::vector<int> all(n);
  CHECK(
      cudaMemcpy(all.data(), device, n * sizeof(int), cudaMemcpyDeviceToHost));
  for (int x : all)
    EXPECT(x == all[0]);
  return all[0];
}

size_t nodes_of(cudaGraph_t g) {
  size_t count = 0;
  CHECK(cudaGraphGetNodes(g, nullptr, &count));
  return count;
}

// Captures a chain in one stream, and launches it often.
void chain() {
  int* x = make(n * sizeof(int));
  cudaStream_t s;
  CHECK(cudaStreamCreate(&s));
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  add<<<n / 256, 256, 0, s>>>(x, 1);
  add<<<n / 256, 256, 0, s>>>(x, 2);
  cudaStreamCaptureStatus status;
  CHECK(cudaStreamIsCapturing(s, &status));
  EXPECT(status == cudaStreamCaptureStatusActive);
  cudaGraph_t g;
  CHECK(cudaStreamEndCapture(s, &g));
  CHECK(cudaStreamIsCapturing(s, &status));
  EXPECT(status == cudaStreamCaptureStatusNone);
  CHECK(cudaDeviceSynchronize());
  EXPECT(first_of(x) == 0); // No work was done yet.
  EXPECT(nodes_of(g) == 2);
  cudaGraphExec_t e;
  CHECK(cudaGraphInstantiate(&e, g, 0));
  CHECK(cudaGraphDestroy(g)); // The instance does not need it.
  for (int i = 0; i < 100; ++i)
    CHECK(cudaGraphLaunch(e, s));
  CHECK(cudaStreamSynchronize(s));
  EXPECT(first_of(x) == 300);
  CHECK(cudaGraphExecDestroy(e));
  CHECK(cudaStreamDestroy(s));
  CHECK(cudaFree(x));
}

// Captures two streams that fork from the first one and join it.
void fork_and_join() {
  int *a = make(n * sizeof(int)), *b = make(n * sizeof(int)),
      *c = make(n * sizeof(int));
  cudaStream_t s, t;
  cudaEvent_t forked, joined;
  CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
  CHECK(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  CHECK(cudaMemsetAsync(a, 0, n * sizeof(int), s));
  CHECK(cudaEventRecord(forked, s));
  CHECK(cudaStreamWaitEvent(t, forked, 0));
  add<<<n / 256, 256, 0, s>>>(a, 5);
  CHECK(cudaMemcpyAsync(b, a, 0, cudaMemcpyDeviceToDevice, t));
  add<<<n / 256, 256, 0, t>>>(b, 7);
  CHECK(cudaEventRecord(joined, t));
  CHECK(cudaStreamWaitEvent(s, joined, 0));
  sum<<<n / 256, 256, 0, s>>>(a, b, c);
  cudaGraph_t g;
  CHECK(cudaStreamEndCapture(s, &g));
  size_t roots = 0, edges = 0;
  CHECK(cudaGraphGetRootNodes(g, nullptr, &roots));
  EXPECT(roots == 1);
  CHECK(cudaGraphGetEdges(g, nullptr, nullptr, nullptr, &edges));
  EXPECT(edges >= 4);
  cudaGraphExec_t e;
  CHECK(cudaGraphInstantiate(&e, g, 0));
  CHECK(cudaGraphLaunch(e, t));
  CHECK(cudaGraphLaunch(e, t));
  CHECK(cudaStreamSynchronize(t));
  EXPECT(first_of(c) == 5 + 14);
  // An unjoined fork is an error.
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  CHECK(cudaEventRecord(forked, s));
  CHECK(cudaStreamWaitEvent(t, forked, 0));
  add<<<n / 256, 256, 0, t>>>(b, 7);
  cudaGraph_t none;
  EXPECT(cudaStreamEndCapture(s, &none) == cudaErrorStreamCaptureUnjoined);
  EXPECT(none == nullptr);
  (void)cudaGetLastError();
  add<<<n / 256, 256, 0, t>>>(b, 1); // Neither stream captures any more.
  CHECK(cudaStreamSynchronize(t));
  EXPECT(first_of(b) == 15);
  CHECK(cudaGraphExecDestroy(e));
  CHECK(cudaGraphDestroy(g));
  CHECK(cudaEventDestroy(forked));
  CHECK(cudaEventDestroy(joined));
  CHECK(cudaStreamDestroy(s));
  CHECK(cudaStreamDestroy(t));
  CHECK(cudaFree(a));
  CHECK(cudaFree(b));
  CHECK(cudaFree(c));
}

void CUDART_CB count_up(void* data) {
  ++*static_cast<int*>(data);
}

// Builds nodes and edges of every common kind by hand.
void by_hand() {
  int* x = make(n * sizeof(int));
  std::vector<int> from(n, 3), to(n, 0);
  int called = 0;
  cudaGraph_t g;
  CHECK(cudaGraphCreate(&g, 0));
  cudaGraphNode_t in, times, out, host;
  CHECK(cudaGraphAddMemcpyNode1D(&in, g, nullptr, 0, x, from.data(),
                                 n * sizeof(int), cudaMemcpyHostToDevice));
  int by = 4;
  void* arguments[] = {&x, &by};
  cudaKernelNodeParams k = {};
  k.func = reinterpret_cast<void*>(scale);
  k.gridDim = dim3(n / 128);
  k.blockDim = dim3(128);
  k.kernelParams = arguments;
  CHECK(cudaGraphAddKernelNode(&times, g, &in, 1, &k));
  CHECK(cudaGraphAddMemcpyNode1D(&out, g, nullptr, 0, to.data(), x,
                                 n * sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(cudaGraphAddDependencies(g, &times, &out, nullptr, 1));
  // A cycle may be made, but not instantiated.
  cudaGraphExec_t e;
  CHECK(cudaGraphAddDependencies(g, &out, &in, nullptr, 1));
  EXPECT(cudaGraphInstantiate(&e, g, 0) != cudaSuccess);
  (void)cudaGetLastError();
  CHECK(cudaGraphRemoveDependencies(g, &out, &in, nullptr, 1));
  cudaHostNodeParams h = {};
  h.fn = count_up;
  h.userData = &called;
  CHECK(cudaGraphAddHostNode(&host, g, &out, 1, &h));
  by = 9; // has no effect, because the node copied the argument
  CHECK(cudaGraphInstantiate(&e, g, 0));
  CHECK(cudaGraphLaunch(e, nullptr));
  CHECK(cudaDeviceSynchronize());
  EXPECT(called == 1);
  for (int v : to)
    EXPECT(v == 12);
  // The launch copies the host's present bytes.
  from.assign(n, 10);
  CHECK(cudaGraphLaunch(e, nullptr));
  CHECK(cudaDeviceSynchronize());
  EXPECT(to[n - 1] == 40);
  // This changes the argument of the instance only.
  by = 6;
  CHECK(cudaGraphExecKernelNodeSetParams(e, times, &k));
  CHECK(cudaGraphLaunch(e, nullptr));
  CHECK(cudaDeviceSynchronize());
  EXPECT(to[0] == 60 && called == 3);
  cudaKernelNodeParams told = {};
  CHECK(cudaGraphKernelNodeGetParams(times, &told));
  EXPECT(told.gridDim.x == n / 128 && told.blockDim.x == 128);
  EXPECT(*static_cast<int*>(told.kernelParams[1]) == 4);
  cudaGraphNodeType type;
  CHECK(cudaGraphNodeGetType(host, &type));
  EXPECT(type == cudaGraphNodeTypeHost);
  // Switched off, the kernel does nothing.
  CHECK(cudaGraphNodeSetEnabled(e, times, 0));
  CHECK(cudaGraphLaunch(e, nullptr));
  CHECK(cudaDeviceSynchronize());
  EXPECT(to[0] == 10);
  CHECK(cudaGraphExecDestroy(e));
  CHECK(cudaGraphDestroy(g));
  CHECK(cudaFree(x));
}

cudaGraph_t captured(cudaStream_t s, int* x, int by, int often) {
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
  for (int i = 0; i < often; ++i)
    add<<<n / 256, 256, 0, s>>>(x, by);
  cudaGraph_t g;
  CHECK(cudaStreamEndCapture(s, &g));
  return g;
}

// Updates a whole instance, and uses a child graph and a clone.
void update_child_and_clone() {
  int* x = make(n * sizeof(int));
  cudaStream_t s;
  CHECK(cudaStreamCreate(&s));
  cudaGraph_t one = captured(s, x, 1, 2), ten = captured(s, x, 10, 2),
              longer = captured(s, x, 1, 3);
  cudaGraphExec_t e;
  CHECK(cudaGraphInstantiate(&e, one, 0));
  cudaGraphExecUpdateResultInfo info;
  CHECK(cudaGraphExecUpdate(e, ten, &info));
  EXPECT(info.result == cudaGraphExecUpdateSuccess);
  CHECK(cudaGraphLaunch(e, s));
  CHECK(cudaStreamSynchronize(s));
  EXPECT(first_of(x) == 20);
  EXPECT(cudaGraphExecUpdate(e, longer, &info) ==
         cudaErrorGraphExecUpdateFailure);
  EXPECT(info.result == cudaGraphExecUpdateErrorTopologyChanged);
  (void)cudaGetLastError();

  cudaGraph_t parent;
  CHECK(cudaGraphCreate(&parent, 0));
  cudaGraphNode_t child, more;
  CHECK(cudaGraphAddChildGraphNode(&child, parent, nullptr, 0, one));
  CHECK(cudaGraphAddChildGraphNode(&more, parent, &child, 1, ten));
  cudaGraph_t twin;
  CHECK(cudaGraphClone(&twin, parent));
  cudaGraphNode_t more_there;
  CHECK(cudaGraphNodeFindInClone(&more_there, more, twin));
  CHECK(cudaGraphDestroyNode(more_there));
  EXPECT(nodes_of(twin) == 1 && nodes_of(parent) == 2);
  cudaGraphExec_t whole, half;
  CHECK(cudaGraphInstantiate(&whole, parent, 0));
  CHECK(cudaGraphInstantiate(&half, twin, 0));
  CHECK(cudaGraphLaunch(whole, s));
  CHECK(cudaGraphLaunch(half, s));
  CHECK(cudaStreamSynchronize(s));
  EXPECT(first_of(x) == 20 + 22 + 2);

  // A launch cannot be captured.
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
  EXPECT(cudaGraphLaunch(whole, s) == cudaErrorStreamCaptureUnsupported);
  cudaGraph_t outer = nullptr;
  (void)cudaStreamEndCapture(s, &outer);
  (void)cudaGetLastError();
  EXPECT(first_of(x) == 44);
  if (outer != nullptr)
    CHECK(cudaGraphDestroy(outer));
  for (cudaGraphExec_t each : {e, whole, half})
    CHECK(cudaGraphExecDestroy(each));
  for (cudaGraph_t each : {one, ten, longer, parent, twin})
    CHECK(cudaGraphDestroy(each));
  EXPECT(cudaGraphDestroy(one) != cudaSuccess);
  (void)cudaGetLastError();
  CHECK(cudaStreamDestroy(s));
  CHECK(cudaFree(x));
}

// Forbidden calls end a capture.
void forbidden() {
  int* x = make(n * sizeof(int));
  cudaStream_t s;
  CHECK(cudaStreamCreate(&s));
  cudaGraph_t g = nullptr;
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  EXPECT(cudaStreamSynchronize(s) == cudaErrorStreamCaptureUnsupported);
  EXPECT(cudaStreamEndCapture(s, &g) == cudaErrorStreamCaptureInvalidated);
  EXPECT(g == nullptr);
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  int* y = nullptr;
  EXPECT(cudaMalloc(&y, 16) == cudaErrorStreamCaptureUnsupported);
  EXPECT(cudaStreamEndCapture(s, &g) == cudaErrorStreamCaptureInvalidated);
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
  add<<<n / 256, 256>>>(x, 1); // the legacy stream would wait for it
  EXPECT(cudaGetLastError() == cudaErrorStreamCaptureImplicit);
  EXPECT(cudaStreamEndCapture(s, &g) == cudaErrorStreamCaptureInvalidated);
  EXPECT(cudaStreamEndCapture(s, &g) == cudaErrorIllegalState);
  EXPECT(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed) ==
         cudaErrorStreamCaptureUnsupported);
  (void)cudaGetLastError();
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
  CHECK(cudaMalloc(&y, 16)); // The relaxed mode allows it.
  CHECK(cudaStreamEndCapture(s, &g));
  EXPECT(nodes_of(g) == 0);
  CHECK(cudaGraphDestroy(g));
  CHECK(cudaFree(y));
  CHECK(cudaStreamDestroy(s));
  CHECK(cudaFree(x));
}

__global__ void count_slowly(int* at) {
  auto before = *static_cast<volatile int*>(at);
  for (int i = 0; i < 2000; ++i)
    __nanosleep(20);
  *static_cast<volatile int*>(at) = before + 1;
}

/// Launches of one graph follow each other, whatever their streams are.
void one_graph_in_two_streams() {
  int* at = nullptr;
  CHECK(cudaMalloc(&at, sizeof *at));
  CHECK(cudaMemset(at, 0, sizeof *at));
  cudaStream_t in[2];
  for (auto& s : in)
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CHECK(cudaDeviceSynchronize());
  cudaGraph_t g;
  CHECK(cudaStreamBeginCapture(in[0], cudaStreamCaptureModeRelaxed));
  count_slowly<<<1, 1, 0, in[0]>>>(at);
  CHECK(cudaStreamEndCapture(in[0], &g));
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, g, 0));
  constexpr int rounds = 20;
  for (int i = 0; i < rounds; ++i)
    for (auto s : in)
      CHECK(cudaGraphLaunch(exec, s));
  CHECK(cudaDeviceSynchronize());
  int count = 0;
  CHECK(cudaMemcpy(&count, at, sizeof count, cudaMemcpyDeviceToHost));
  EXPECT(count == 2 * rounds);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(g));
  for (auto s : in)
    CHECK(cudaStreamDestroy(s));
  CHECK(cudaFree(at));
}

int main() {
  one_graph_in_two_streams();
  chain();
  fork_and_join();
  by_hand();
  update_child_and_clone();
  forbidden();
  std::printf("ok\n");
}
