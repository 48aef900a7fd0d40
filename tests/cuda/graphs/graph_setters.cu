// Parameters of graphs' nodes that are set are told again, and act: in graphs
// that are instantiated afterwards, and in executable graphs at their next
// launch.
// nvcc: -lcuda
#include "../check.hpp"

#include <cstdint>

__global__ void put(int* to, int value) {
  *to = value;
}

static CUcontext context;
static CUfunction put_function;
static int *device, *host;
static int called;

static void note(void* x) {
  called += *static_cast<int*>(x);
}

// A graph of one node, and what becomes of it.
struct one_node {
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;

  one_node() { CHECK(cuGraphCreate(&graph, 0)); }
  ~one_node() {
    if (exec != nullptr)
      CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
  }
  void launch() {
    if (exec == nullptr)
      CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, nullptr));
    CHECK(cuCtxSynchronize());
  }
  int result() {
    launch();
    CHECK(cudaMemcpy(host, device, sizeof(int), cudaMemcpyDefault));
    return *host;
  }
};

static CUDA_MEMSET_NODE_PARAMS fill(unsigned value) {
  CUDA_MEMSET_NODE_PARAMS out = {};
  out.dst = reinterpret_cast<CUdeviceptr>(device);
  out.elementSize = 4;
  out.width = out.height = 1;
  out.value = value;
  return out;
}

static void memsets() {
  one_node x;
  auto what = fill(1);
  CHECK(cuGraphAddMemsetNode(&x.node, x.graph, nullptr, 0, &what, context));
  what = fill(2);
  CHECK(cuGraphMemsetNodeSetParams(x.node, &what));
  CUDA_MEMSET_NODE_PARAMS told = {};
  CHECK(cuGraphMemsetNodeGetParams(x.node, &told));
  EXPECT(told.value == 2 && told.dst == what.dst && told.elementSize == 4);
  EXPECT(x.result() == 2);
  what = fill(3);
  CHECK(cuGraphExecMemsetNodeSetParams(x.exec, x.node, &what, context));
  EXPECT(x.result() == 3);
  CHECK(cuGraphMemsetNodeGetParams(x.node, &told));
  EXPECT(told.value == 2);

  CUgraphNodeParams any = {};
  any.type = CU_GRAPH_NODE_TYPE_MEMSET;
  any.memset.dst = what.dst;
  any.memset.elementSize = 4;
  any.memset.width = any.memset.height = 1;
  any.memset.value = 4;
  any.memset.ctx = context;
  CHECK(cuGraphNodeSetParams(x.node, &any));
  CHECK(cuGraphMemsetNodeGetParams(x.node, &told));
  EXPECT(told.value == 4);
  any.memset.value = 5;
  CHECK(cuGraphExecNodeSetParams(x.exec, x.node, &any));
  EXPECT(x.result() == 5);
}

static void enabling() {
  one_node x;
  auto what = fill(6);
  CHECK(cuGraphAddMemsetNode(&x.node, x.graph, nullptr, 0, &what, context));
  EXPECT(x.result() == 6);
  CHECK(cudaMemset(device, 0, sizeof(int)));
  unsigned on = 9;
  CHECK(cuGraphNodeSetEnabled(x.exec, x.node, 0));
  CHECK(cuGraphNodeGetEnabled(x.exec, x.node, &on));
  EXPECT(on == 0 && x.result() == 0);
  CHECK(cuGraphNodeSetEnabled(x.exec, x.node, 1));
  CHECK(cuGraphNodeGetEnabled(x.exec, x.node, &on));
  EXPECT(on == 1 && x.result() == 6);
}

static CUDA_MEMCPY3D copy_from(const int* source) {
  CUDA_MEMCPY3D out = {};
  out.srcMemoryType = CU_MEMORYTYPE_HOST;
  out.srcHost = source;
  out.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  out.dstDevice = reinterpret_cast<CUdeviceptr>(device);
  out.WidthInBytes = sizeof(int);
  out.Height = out.Depth = 1;
  return out;
}

static void copies() {
  host[1] = 11;
  host[2] = 12;
  host[3] = 13;
  one_node x;
  auto what = copy_from(host + 1);
  CHECK(cuGraphAddMemcpyNode(&x.node, x.graph, nullptr, 0, &what, context));
  what = copy_from(host + 2);
  CHECK(cuGraphMemcpyNodeSetParams(x.node, &what));
  CUDA_MEMCPY3D told = {};
  CHECK(cuGraphMemcpyNodeGetParams(x.node, &told));
  EXPECT(told.srcHost == host + 2 && told.WidthInBytes == sizeof(int));
  EXPECT(x.result() == 12);
  what = copy_from(host + 3);
  CHECK(cuGraphExecMemcpyNodeSetParams(x.exec, x.node, &what, context));
  EXPECT(x.result() == 13);
}

static void kernels() {
  one_node x;
  int value = 21;
  void* arguments[] = {&device, &value};
  CUDA_KERNEL_NODE_PARAMS what = {};
  what.func = put_function;
  what.gridDimX = what.gridDimY = what.gridDimZ = 1;
  what.blockDimX = what.blockDimY = what.blockDimZ = 1;
  what.kernelParams = arguments;
  CHECK(cuGraphAddKernelNode(&x.node, x.graph, nullptr, 0, &what));
  value = 22;
  CHECK(cuGraphKernelNodeSetParams(x.node, &what));
  CUDA_KERNEL_NODE_PARAMS told = {};
  CHECK(cuGraphKernelNodeGetParams(x.node, &told));
  EXPECT(*static_cast<int*>(told.kernelParams[1]) == 22);

  CUgraphNode other;
  CHECK(cuGraphAddKernelNode(&other, x.graph, &x.node, 1, &what));
  CUkernelNodeAttrValue set = {}, got = {};
  set.cooperative = 1;
  CHECK(cuGraphKernelNodeSetAttribute(
      x.node, CU_KERNEL_NODE_ATTRIBUTE_COOPERATIVE, &set));
  CHECK(cuGraphKernelNodeGetAttribute(
      x.node, CU_KERNEL_NODE_ATTRIBUTE_COOPERATIVE, &got));
  EXPECT(got.cooperative == 1);
  CHECK(cuGraphKernelNodeCopyAttributes(other, x.node));
  got = {};
  CHECK(cuGraphKernelNodeGetAttribute(
      other, CU_KERNEL_NODE_ATTRIBUTE_COOPERATIVE, &got));
  EXPECT(got.cooperative == 1);
  CHECK(cuGraphDestroyNode(other));

  EXPECT(x.result() == 22);
  value = 23;
  CHECK(cuGraphExecKernelNodeSetParams(x.exec, x.node, &what));
  EXPECT(x.result() == 23);
}

static void host_functions() {
  static int one = 1, ten = 10, hundred = 100;
  one_node x;
  CUDA_HOST_NODE_PARAMS what = {note, &one}, told = {};
  CHECK(cuGraphAddHostNode(&x.node, x.graph, nullptr, 0, &what));
  what.userData = &ten;
  CHECK(cuGraphHostNodeSetParams(x.node, &what));
  CHECK(cuGraphHostNodeGetParams(x.node, &told));
  EXPECT(told.fn == note && told.userData == &ten);
  x.launch();
  EXPECT(called == 10);
  what.userData = &hundred;
  CHECK(cuGraphExecHostNodeSetParams(x.exec, x.node, &what));
  x.launch();
  EXPECT(called == 110);
}

static bool is_recorded(CUevent x) {
  float ms = 0;
  return cuEventElapsedTime(&ms, x, x) == CUDA_SUCCESS;
}

static void events() {
  CUevent a, b, c, told = nullptr;
  CHECK(cuEventCreate(&a, 0));
  CHECK(cuEventCreate(&b, 0));
  CHECK(cuEventCreate(&c, 0));
  {
    one_node x;
    CHECK(cuGraphAddEventRecordNode(&x.node, x.graph, nullptr, 0, a));
    CHECK(cuGraphEventRecordNodeSetEvent(x.node, b));
    CHECK(cuGraphEventRecordNodeGetEvent(x.node, &told));
    EXPECT(told == b);
    x.launch();
    EXPECT(!is_recorded(a) && is_recorded(b));
    CHECK(cuGraphExecEventRecordNodeSetEvent(x.exec, x.node, c));
    x.launch();
    EXPECT(!is_recorded(a) && is_recorded(c));
  }
  one_node x;
  CHECK(cuGraphAddEventWaitNode(&x.node, x.graph, nullptr, 0, a));
  CHECK(cuGraphEventWaitNodeSetEvent(x.node, b));
  CHECK(cuGraphEventWaitNodeGetEvent(x.node, &told));
  EXPECT(told == b);
  x.launch();
  CHECK(cuGraphExecEventWaitNodeSetEvent(x.exec, x.node, c));
  x.launch();
  for (auto* each : {a, b, c})
    CHECK(cuEventDestroy(each));
}

static void children() {
  one_node first, second, x;
  auto what = fill(31);
  CHECK(cuGraphAddMemsetNode(&first.node, first.graph, nullptr, 0, &what,
                             context));
  what = fill(32);
  CHECK(cuGraphAddMemsetNode(&second.node, second.graph, nullptr, 0, &what,
                             context));
  CHECK(cuGraphAddChildGraphNode(&x.node, x.graph, nullptr, 0, first.graph));
  EXPECT(x.result() == 31);
  CHECK(cuGraphExecChildGraphNodeSetParams(x.exec, x.node, second.graph));
  EXPECT(x.result() == 32);
}

static void capture_modes() {
  auto mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  CHECK(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
  CHECK(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT(mode == CU_STREAM_CAPTURE_MODE_RELAXED);
}

// What a node told is changed in one place and passed on, also after the node
// was set. A list without room is no question for its size.
static void told_parameters() {
  one_node x;
  int value = 1;
  void* arguments[] = {&device, &value};
  CUDA_KERNEL_NODE_PARAMS what = {};
  what.func = put_function;
  what.gridDimX = what.gridDimY = what.gridDimZ = 1;
  what.blockDimX = what.blockDimY = what.blockDimZ = 1;
  what.kernelParams = arguments;
  CHECK(cuGraphAddKernelNode(&x.node, x.graph, nullptr, 0, &what));
  CUDA_KERNEL_NODE_PARAMS told = {};
  CHECK(cuGraphKernelNodeGetParams(x.node, &told));
  int second = 2, third = 3;
  told.kernelParams[1] = &second;
  CHECK(cuGraphKernelNodeSetParams(x.node, &told));
  EXPECT(x.result() == 2);
  told.kernelParams[1] = &third;
  CHECK(cuGraphExecKernelNodeSetParams(x.exec, x.node, &told));
  EXPECT(x.result() == 3);
  CUgraphNode node = nullptr;
  size_t none = 0;
  EXPECT(cuGraphGetNodes(x.graph, &node, &none) == CUDA_ERROR_INVALID_VALUE);
  EXPECT(node == nullptr && none == 0);
}

int main() {
  CHECK(cudaMalloc(&device, 64));
  CHECK(cudaMallocHost(&host, 64));
  CHECK(cuCtxGetCurrent(&context));
  cudaFunction_t function;
  CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(put)));
  put_function = function;
  memsets();
  enabling();
  copies();
  kernels();
  told_parameters();
  host_functions();
  events();
  children();
  capture_modes();
  std::printf("ok\n");
}
