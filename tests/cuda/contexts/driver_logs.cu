// The driver's logs of failed calls, and drawings of graphs.
// nvcc: -lcuda
#include "../check.hpp"

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include <unistd.h>

__global__ void kernel(int* x) {
  *x += 1;
}

static int heard = 0;
static std::string last;

static void CUDA_CB hear(void* data, CUlogLevel level, char* text, size_t n) {
  EXPECT(data == &heard);
  EXPECT(strlen(text) == n);
  EXPECT(level == CU_LOG_LEVEL_ERROR);
  ++heard;
  last = text;
}

static void logs() {
  printf("logs\n");
  CUlogIterator start = 77, now = 0;
  CHECK(cuLogsCurrent(&start, 0));
  CUlogsCallbackHandle handle = nullptr;
  CHECK(cuLogsRegisterCallback(hear, &heard, &handle));
  EXPECT(cuMemFree(0x1234) == CUDA_ERROR_INVALID_VALUE);
  EXPECT(heard >= 1);
  printf("  heard: %s\n", last.c_str());
  CHECK(cuLogsUnregisterCallback(handle));
  int before = heard;
  EXPECT(cuMemFree(0x1234) == CUDA_ERROR_INVALID_VALUE);
  EXPECT(heard == before);
  CHECK(cuLogsCurrent(&now, 0));
  EXPECT(now > start);
  static char text[40000];
  size_t size = sizeof text;
  auto from = start;
  CHECK(cuLogsDumpToMemory(&from, text, &size, 0));
  EXPECT(from == now);
  EXPECT(size == strlen(text) && size > 0 && text[size - 1] == '\n');
  EXPECT(strstr(text, "[CUDA][E] Returning 1 (CUDA_ERROR_INVALID_VALUE) from "
                      "cuMemFree_v2\n") != nullptr);
  size = sizeof text;
  CHECK(cuLogsDumpToMemory(&from, text, &size, 0));
  EXPECT(size == 0);
  size = 20;
  from = start;
  ANSWER(CUDA_ERROR_INVALID_VALUE, cuLogsDumpToMemory(&from, text, &size, 0));
  EXPECT(size == 0 && from == start);
  size = sizeof text;
  from = now + 100000;
  ANSWER(CUDA_ERROR_INVALID_VALUE, cuLogsDumpToMemory(&from, text, &size, 0));
  ANSWER(CUDA_ERROR_INVALID_VALUE,
         cuLogsDumpToMemory(nullptr, nullptr, &size, 0));
  ANSWER(CUDA_ERROR_INVALID_VALUE,
         cuLogsDumpToMemory(nullptr, text, nullptr, 0));
  ANSWER(CUDA_ERROR_INVALID_VALUE, cuLogsCurrent(nullptr, 0));
  ANSWER(CUDA_SUCCESS, cuLogsCurrent(&now, 1));
  ANSWER(CUDA_ERROR_INVALID_VALUE,
         cuLogsRegisterCallback(nullptr, nullptr, &handle));
  ANSWER(CUDA_ERROR_INVALID_VALUE, cuLogsDumpToFile(nullptr, nullptr, 0));
  ANSWER(CUDA_ERROR_INVALID_VALUE,
         cuLogsDumpToFile(nullptr, "/nowhere/at.all", 0));
}

static std::string drawn(CUgraph graph, unsigned flags) {
  auto path = "/tmp/drawn-" + std::to_string(getpid()) + ".dot";
  CHECK(cuGraphDebugDotPrint(graph, path.c_str(), flags));
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  unlink(path.c_str());
  return out.str();
}

static void drawings() {
  printf("drawings\n");
  CUgraph graph;
  CUgraphNode node, next;
  int* memory;
  CHECK(cudaMalloc(&memory, 64));
  cudaFunction_t f;
  CHECK(cudaGetFuncBySymbol(&f, reinterpret_cast<const void*>(kernel)));
  void* arguments[] = {&memory};
  CUDA_KERNEL_NODE_PARAMS p;
  memset(&p, 0, sizeof p);
  p.func = f;
  p.gridDimX = 2;
  p.blockDimX = 32;
  p.gridDimY = p.gridDimZ = p.blockDimY = p.blockDimZ = 1;
  p.kernelParams = arguments;
  CHECK(cuGraphCreate(&graph, 0));
  CHECK(cuGraphAddKernelNode(&node, graph, nullptr, 0, &p));
  CHECK(cuGraphAddEmptyNode(&next, graph, &node, 1));
  auto text = drawn(graph, 0);
  auto has = [&](const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT(text.rfind("digraph dot {\n", 0) == 0);
  EXPECT(has("kernel"));
  EXPECT(has("EMPTY\n"));
  EXPECT(has("_node_0\" -> \""));
  text = drawn(graph, CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS);
  EXPECT(has("2,32,0"));
  text = drawn(graph, CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES);
  EXPECT(has("node handle: 0x"));
  ANSWER(CUDA_ERROR_INVALID_VALUE, cuGraphDebugDotPrint(graph, nullptr, 0));
  ANSWER(CUDA_ERROR_OPERATING_SYSTEM,
         cuGraphDebugDotPrint(graph, "/nowhere/x.dot", 0));
  ANSWER(CUDA_ERROR_OPERATING_SYSTEM, cuGraphDebugDotPrint(graph, "/tmp", 0));
  ANSWER(CUDA_ERROR_INVALID_VALUE,
         cuGraphDebugDotPrint(nullptr, "/tmp/x.dot", 0));
  CHECK(cuGraphDestroy(graph));
  CHECK(cudaFree(memory));
}

int main() {
  CHECK(cudaFree(nullptr));
  logs();
  drawings();
  printf("ok\n");
}
