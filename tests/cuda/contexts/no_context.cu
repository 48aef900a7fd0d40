// Calls of a thread without a current context, with the results of an H200.
// nvcc: -lcuda
#include "../check.hpp"

#include <cstdlib>
#include <thread>

__global__ void kernel(int* x) {
  *x += 1;
}

// A call with a handle uses the handle's context, and needs no current one.
#define WORKS(call) EXPECT((call) == CUDA_SUCCESS)
#define NEEDS_ONE(call) EXPECT((call) == CUDA_ERROR_INVALID_CONTEXT)

struct things {
  CUcontext context;
  CUstream s;
  CUevent e, later, timed, timed_too;
  CUdeviceptr at, freed, managed, of_pool;
  void *pinned, *pinned_too;
  CUfunction f;
  CUgraph graph;
  CUgraphExec exec;
  CUmemoryPool pool;
  CUarray array;
  CUdevice device;
};

static void make(things& t) {
  CHECK(cudaFree(nullptr));
  CHECK(cuDeviceGet(&t.device, 0));
  CHECK(cuCtxGetCurrent(&t.context));
  CHECK(cuStreamCreate(&t.s, CU_STREAM_NON_BLOCKING));
  CHECK(cuEventCreate(&t.e, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventCreate(&t.later, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventCreate(&t.timed, 0));
  CHECK(cuEventCreate(&t.timed_too, 0));
  CHECK(cuEventRecord(t.timed, t.s));
  CHECK(cuEventRecord(t.timed_too, t.s));
  CHECK(cuEventRecord(t.e, t.s));
  CHECK(cuMemAlloc(&t.at, 4096));
  CHECK(cuMemAlloc(&t.freed, 4096));
  CHECK(cuMemAllocManaged(&t.managed, 4096, CU_MEM_ATTACH_GLOBAL));
  CHECK(cuMemHostAlloc(&t.pinned, 4096, 0));
  CHECK(cuMemHostAlloc(&t.pinned_too, 4096, 0));
  cudaFunction_t f;
  CHECK(cudaGetFuncBySymbol(&f, reinterpret_cast<const void*>(kernel)));
  t.f = f;
  CHECK(cuGraphCreate(&t.graph, 0));
  CHECK(cuGraphInstantiate(&t.exec, t.graph, 0));
  CHECK(cuDeviceGetDefaultMemPool(&t.pool, t.device));
  CHECK(cuMemAllocAsync(&t.of_pool, 4096, t.s));
  CUDA_ARRAY_DESCRIPTOR shape = {16, 16, CU_AD_FORMAT_FLOAT, 1};
  CHECK(cuArrayCreate(&t.array, &shape));
  CHECK(cuCtxSynchronize());
}

static void nothing(void*) {}

static void events_and_streams(things& t) {
  float ms;
  unsigned flags;
  int priority;
  CUcontext of;
  unsigned long long id;
  CUstreamCaptureStatus capturing;
  CUevent fresh;
  CUstream stream;
  WORKS(cuEventQuery(t.e));
  WORKS(cuEventSynchronize(t.e));
  WORKS(cuEventElapsedTime(&ms, t.timed, t.timed_too));
  WORKS(cuEventRecord(t.e, t.s));
  NEEDS_ONE(cuEventRecord(t.e, nullptr));
  NEEDS_ONE(cuEventCreate(&fresh, 0));
  NEEDS_ONE(cuStreamCreate(&stream, 0));
  WORKS(cuStreamSynchronize(t.s));
  WORKS(cuStreamQuery(t.s));
  NEEDS_ONE(cuStreamQuery(nullptr));
  NEEDS_ONE(cuStreamSynchronize(nullptr));
  NEEDS_ONE(cuStreamSynchronize(CU_STREAM_PER_THREAD));
  WORKS(cuStreamWaitEvent(t.s, t.e, 0));
  WORKS(cuStreamGetFlags(t.s, &flags));
  WORKS(cuStreamGetPriority(t.s, &priority));
  WORKS(cuStreamGetCtx(t.s, &of));
  WORKS(cuStreamGetId(t.s, &id));
  WORKS(cuStreamIsCapturing(t.s, &capturing));
  WORKS(cuLaunchHostFunc(t.s, nothing, nullptr));
  WORKS(cuStreamSynchronize(t.s));
}

static void memory(things& t) {
  char host[64] = {};
  size_t bytes;
  unsigned flags;
  CUdeviceptr p = 0;
  void* h;
  CUmemorytype type;
  static char registered[8192];
  CUDA_ARRAY_DESCRIPTOR shape;
  NEEDS_ONE(cuMemAlloc(&p, 64));
  NEEDS_ONE(cuMemAllocManaged(&p, 64, CU_MEM_ATTACH_GLOBAL));
  NEEDS_ONE(cuMemHostAlloc(&h, 64, 0));
  NEEDS_ONE(cuMemGetInfo(&bytes, &bytes));
  NEEDS_ONE(cuMemcpyHtoD(t.at, host, 64));
  NEEDS_ONE(cuMemcpyDtoH(host, t.at, 64));
  NEEDS_ONE(cuMemcpy(t.at, t.at + 64, 64));
  WORKS(cuMemcpyHtoDAsync(t.at, host, 64, t.s));
  WORKS(cuMemcpyDtoHAsync(host, t.at, 64, t.s));
  WORKS(cuMemcpyAsync(t.at, t.at + 64, 64, t.s));
  NEEDS_ONE(cuMemcpyHtoDAsync(t.at, host, 64, nullptr));
  NEEDS_ONE(cuMemsetD8(t.at, 0, 64));
  WORKS(cuMemsetD8Async(t.at, 0, 64, t.s));
  WORKS(cuStreamSynchronize(t.s));
  NEEDS_ONE(cuMemGetAddressRange(&p, &bytes, t.at));
  WORKS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, t.at));
  NEEDS_ONE(cuMemHostGetDevicePointer(&p, t.pinned, 0));
  NEEDS_ONE(cuMemHostGetFlags(&flags, t.pinned));
  NEEDS_ONE(cuMemHostRegister(registered, sizeof registered, 0));
  EXPECT(cuMemHostUnregister(registered) ==
         CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  WORKS(cuMemAllocAsync(&p, 64, t.s));
  WORKS(cuMemAllocFromPoolAsync(&p, 64, t.pool, t.s));
  WORKS(cuMemFreeAsync(t.of_pool, t.s));
  WORKS(cuMemPoolTrimTo(t.pool, 0));
  WORKS(cuArrayGetDescriptor(&shape, t.array));
  WORKS(cuMemFree(t.freed));
  WORKS(cuMemFree(t.managed));
  WORKS(cuMemFreeHost(t.pinned_too));
  WORKS(cuArrayDestroy(t.array));
}

static void work(things& t) {
  void* arguments[] = {&t.at};
  int value;
  size_t limit;
  CUgraph graph;
  CUgraphExec exec;
  WORKS(cuLaunchKernel(t.f, 1, 1, 1, 1, 1, 1, 0, t.s, arguments, nullptr));
  NEEDS_ONE(
      cuLaunchKernel(t.f, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
  WORKS(cuStreamSynchronize(t.s));
  WORKS(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, t.f));
  WORKS(cuFuncSetAttribute(t.f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                           1024));
  NEEDS_ONE(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, t.f, 64, 0));
  WORKS(cuGraphLaunch(t.exec, t.s));
  NEEDS_ONE(cuGraphLaunch(t.exec, nullptr));
  WORKS(cuGraphCreate(&graph, 0));
  NEEDS_ONE(cuGraphInstantiate(&exec, t.graph, 0));
  WORKS(cuStreamBeginCapture(t.s, CU_STREAM_CAPTURE_MODE_RELAXED));
  WORKS(cuStreamEndCapture(t.s, &graph));
  NEEDS_ONE(cuCtxGetLimit(&limit, CU_LIMIT_STACK_SIZE));
  NEEDS_ONE(cuCtxGetDevice(&value));
  NEEDS_ONE(cuCtxSynchronize());
  WORKS(cuGraphExecDestroy(t.exec));
  WORKS(cuGraphDestroy(t.graph));
  WORKS(cuEventDestroy(t.later));
  WORKS(cuStreamDestroy(t.s));
}

int main() {
  things t = {};
  make(t);
  std::thread{[&] {
    events_and_streams(t);
    memory(t);
    work(t);
  }}.join();
  CHECK(cuCtxSynchronize());
  std::printf("ok\n");
}
