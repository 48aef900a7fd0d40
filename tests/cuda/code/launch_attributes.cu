// nvcc: -lcuda
// Attributes of launches: events that a launch records, hints, and values that
// are refused.
#include "../check.hpp"

namespace {

__global__ void put(int* to, int value) {
  *to = value;
}
__global__ void copy(int* to, const int* from) {
  *to = *from;
}

int *first, *second;
cudaStream_t one, other;

cudaLaunchConfig_t config(cudaStream_t in, cudaLaunchAttribute* attributes,
                          unsigned count) {
  cudaLaunchConfig_t out = {};
  out.gridDim = out.blockDim = 1;
  out.stream = in;
  out.attrs = attributes;
  out.numAttrs = count;
  return out;
}

cudaLaunchAttribute completion(cudaEvent_t event) {
  cudaLaunchAttribute x = {};
  x.id = cudaLaunchAttributeLaunchCompletionEvent;
  x.val.launchCompletionEvent.event = event;
  return x;
}
cudaLaunchAttribute programmatic(cudaEvent_t event) {
  cudaLaunchAttribute x = {};
  x.id = cudaLaunchAttributeProgrammaticEvent;
  x.val.programmaticEvent.event = event;
  x.val.programmaticEvent.triggerAtBlockStart = 1;
  return x;
}

/// An event of a launch makes another stream wait, and the host.
void events() {
  cudaEvent_t event, after, timed;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  CHECK(cudaEventCreateWithFlags(&after, cudaEventDisableTiming));
  CHECK(cudaEventCreate(&timed));
  for (int round = 0; round < 20; ++round) {
    auto x = completion(event);
    auto c = config(one, &x, 1);
    CHECK(cudaLaunchKernelEx(&c, put, first, 100 + round));
    // Both events together say that the value is there.
    CHECK(cudaEventRecord(after, one));
    CHECK(cudaStreamWaitEvent(other, event, 0));
    CHECK(cudaStreamWaitEvent(other, after, 0));
    copy<<<1, 1, 0, other>>>(second, first);
    CHECK(cudaEventSynchronize(event));
    CHECK(cudaEventQuery(event));
    int got = 0;
    CHECK(cudaMemcpyAsync(&got, second, sizeof got, cudaMemcpyDeviceToHost,
                          other));
    CHECK(cudaStreamSynchronize(other));
    EXPECT(got == 100 + round);
  }
  auto x = programmatic(event);
  auto c = config(one, &x, 1);
  CHECK(cudaLaunchKernelEx(&c, put, first, 7));
  CHECK(cudaEventSynchronize(event));
  // An event with a time cannot be recorded by a launch.
  x = completion(timed);
  EXPECT(cudaLaunchKernelEx(&c, put, first, 8) == cudaErrorNotSupported);
  (void)cudaGetLastError();
  CHECK(cudaStreamSynchronize(one));
}

/// Several hints together change nothing of the result.
void hints() {
  cudaLaunchAttribute all[4] = {};
  all[0].id = cudaLaunchAttributePriority;
  all[0].val.priority = -2;
  all[1].id = cudaLaunchAttributeMemSyncDomain;
  all[1].val.memSyncDomain = cudaLaunchMemSyncDomainRemote;
  all[2].id = cudaLaunchAttributeIgnore;
  all[3].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  all[3].val.programmaticStreamSerializationAllowed = 0;
  auto c = config(one, all, 4);
  CHECK(cudaLaunchKernelEx(&c, put, first, 41));
  int got = 0;
  CHECK(cudaMemcpyAsync(&got, first, sizeof got, cudaMemcpyDeviceToHost, one));
  CHECK(cudaStreamSynchronize(one));
  EXPECT(got == 41);
  all[1].val.memSyncDomain = static_cast<cudaLaunchMemSyncDomain>(7);
  EXPECT(cudaLaunchKernelEx(&c, put, first, 42) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
  all[1].id = static_cast<cudaLaunchAttributeID>(60);
  EXPECT(cudaLaunchKernelEx(&c, put, first, 42) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
}

/// A captured launch keeps its attributes in its node.
void captured() {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaGraphNode_t node;
  size_t count = 1;
  cudaLaunchAttribute x = {};
  x.id = cudaLaunchAttributePriority;
  x.val.priority = -1;
  auto c = config(one, &x, 1);
  CHECK(cudaStreamBeginCapture(one, cudaStreamCaptureModeThreadLocal));
  CHECK(cudaLaunchKernelEx(&c, put, first, 50));
  CHECK(cudaStreamEndCapture(one, &graph));
  CHECK(cudaGraphGetNodes(graph, &node, &count));
  cudaLaunchAttributeValue value = {};
  CHECK(cudaGraphKernelNodeGetAttribute(node, cudaLaunchAttributePriority,
                                        &value));
  EXPECT(value.priority == -1);
  CHECK(cudaGraphInstantiateWithFlags(&exec, graph,
                                      cudaGraphInstantiateFlagUseNodePriority));
  CHECK(cudaGraphLaunch(exec, one));
  int got = 0;
  CHECK(cudaMemcpyAsync(&got, first, sizeof got, cudaMemcpyDeviceToHost, one));
  CHECK(cudaStreamSynchronize(one));
  EXPECT(got == 50);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
}

} // namespace

int main() {
  CHECK(cudaMalloc(&first, sizeof *first));
  CHECK(cudaMalloc(&second, sizeof *second));
  CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  events();
  hints();
  captured();
  std::puts("ok");
}
