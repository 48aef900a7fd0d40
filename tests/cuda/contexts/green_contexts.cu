// Green contexts: parts of a device's multiprocessors, contexts of them, their
// streams and work, and the results of wrong calls. The output does not depend
// on how many multiprocessors a device has and how it divides them.
// nvcc: -lcuda
#include "../check.hpp"

#include <cstring>
#include <vector>

__global__ void add(int* to, int what) {
  atomicAdd(to, what);
}

static CUdevResource all_of_device() {
  CUdevResource out;
  CHECK(cuDeviceGetDevResource(0, &out, CU_DEV_RESOURCE_TYPE_SM));
  return out;
}

/// Holds two parts of the device, or the whole device twice if it is too small.
struct parts {
  CUdevResourceDesc first, second;

  parts() {
    auto whole = all_of_device();
    CUdevResource cut[2], rest;
    unsigned n = 2;
    auto half = whole.sm.smCount / 2;
    auto code =
        cuDevSmResourceSplitByCount(cut, &n, &whole, &rest, 0, half / 2);
    if (code != CUDA_SUCCESS || n != 2)
      cut[0] = cut[1] = whole;
    CHECK(cuDevResourceGenerateDesc(&first, &cut[0], 1));
    CHECK(cuDevResourceGenerateDesc(&second, &cut[1], 1));
  }
};

// -- resources ----------------------------------------------------------------

static void cutting(unsigned flags, unsigned least) {
  auto whole = all_of_device();
  if (least > whole.sm.smCount)
    return;
  std::vector<CUdevResource> cut(whole.sm.smCount + 1);
  CUdevResource rest;
  unsigned n = static_cast<unsigned>(cut.size()), asked = 0;
  CHECK(cuDevSmResourceSplitByCount(nullptr, &asked, &whole, nullptr, flags,
                                    least));
  CHECK(
      cuDevSmResourceSplitByCount(cut.data(), &n, &whole, &rest, flags, least));
  EXPECT(n == asked);
  unsigned sum = 0;
  for (unsigned i = 0; i < n; ++i) {
    EXPECT(cut[i].type == CU_DEV_RESOURCE_TYPE_SM);
    EXPECT(cut[i].sm.smCount >= least && cut[i].sm.smCount > 0);
    EXPECT(cut[i].sm.smCount == cut[0].sm.smCount);
    sum += cut[i].sm.smCount;
  }
  if (n != 0 && sum < whole.sm.smCount)
    EXPECT(rest.sm.smCount == whole.sm.smCount - sum);
}

static void resources() {
  printf("resources\n");
  CUdevResource whole = all_of_device(), out[4], none;
  EXPECT(whole.type == CU_DEV_RESOURCE_TYPE_SM);
  int count = 0;
  CHECK(cuDeviceGetAttribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                             0));
  EXPECT(whole.sm.smCount == static_cast<unsigned>(count));
  for (unsigned least : {0, 1, 2, 7, 8, 9, 16, 33, 64})
    for (unsigned flags : {0, 1})
      cutting(flags, least);
  CUdevResourceDesc desc;
  unsigned n = 4;
  auto type = CU_DEV_RESOURCE_TYPE_SM;
  auto wrong = static_cast<CUdevResourceType>(77);
  memset(&none, 0, sizeof none);
  ANSWER(CUDA_ERROR_INVALID_VALUE, cuDeviceGetDevResource(0, nullptr, type));
  ANSWER(CUDA_ERROR_INVALID_RESOURCE_TYPE,
         cuDeviceGetDevResource(0, out, wrong));
  ANSWER(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetDevResource(99, out, type));
  ANSWER(CUDA_ERROR_INVALID_VALUE,
         cuDevSmResourceSplitByCount(out, nullptr, &whole, nullptr, 0, 1));
  ANSWER(CUDA_ERROR_INVALID_VALUE,
         cuDevSmResourceSplitByCount(out, &n, nullptr, nullptr, 0, 1));
  ANSWER(CUDA_ERROR_INVALID_RESOURCE_TYPE,
         cuDevSmResourceSplitByCount(out, &n, &none, nullptr, 0, 1));
  ANSWER(CUDA_SUCCESS,
         cuDevSmResourceSplitByCount(out, &n, &whole, nullptr, 8, 1));
  ANSWER(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION,
         cuDevSmResourceSplitByCount(out, &n, &whole, nullptr, 0, 1u << 20));
  ANSWER(CUDA_ERROR_INVALID_VALUE,
         cuDevResourceGenerateDesc(nullptr, &whole, 1));
  ANSWER(CUDA_ERROR_INVALID_VALUE,
         cuDevResourceGenerateDesc(&desc, nullptr, 1));
  ANSWER(CUDA_ERROR_INVALID_RESOURCE_TYPE,
         cuDevResourceGenerateDesc(&desc, &none, 1));
  CUdevResource twice[] = {whole, whole};
  ANSWER(CUDA_SUCCESS, cuDevResourceGenerateDesc(&desc, twice, 2));
}

// -- contexts -----------------------------------------------------------------

static void contexts(const parts& of) {
  printf("contexts\n");
  CUcontext primary, as, again, current;
  CHECK(cuCtxGetCurrent(&primary));
  CUgreenCtx green = nullptr;
  ANSWER(CUDA_ERROR_INVALID_VALUE, cuGreenCtxCreate(&green, of.first, 0, 0));
  ANSWER(CUDA_ERROR_INVALID_VALUE, cuGreenCtxCreate(&green, of.first, 0, 2));
  ANSWER(CUDA_ERROR_INVALID_VALUE,
         cuGreenCtxCreate(nullptr, of.first, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  // Without a descriptor the context has the whole device.
  CHECK(cuGreenCtxCreate(&green, nullptr, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  CUdevResource all, its_own;
  CHECK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
  CHECK(cuGreenCtxGetDevResource(green, &its_own, CU_DEV_RESOURCE_TYPE_SM));
  EXPECT(all.sm.smCount == its_own.sm.smCount);
  CHECK(cuGreenCtxDestroy(green));
  ANSWER(CUDA_ERROR_INVALID_DEVICE,
         cuGreenCtxCreate(&green, of.first, 99, CU_GREEN_CTX_DEFAULT_STREAM));
  CHECK(cuGreenCtxCreate(&green, of.first, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  CHECK(cuCtxGetCurrent(&current));
  EXPECT(current == primary);
  CHECK(cuCtxFromGreenCtx(&as, green));
  CHECK(cuCtxFromGreenCtx(&again, green));
  EXPECT(as == again && as != primary);
  ANSWER(CUDA_ERROR_INVALID_VALUE, cuCtxFromGreenCtx(nullptr, green));
  ANSWER(CUDA_ERROR_INVALID_CONTEXT, cuCtxFromGreenCtx(&again, nullptr));
  unsigned long long id = 0, mine = 0, primarys = 0;
  CHECK(cuGreenCtxGetId(green, &id));
  CHECK(cuCtxGetId(primary, &primarys));
  EXPECT(id != primarys);
  CHECK(cuCtxGetId(as, &mine));
  EXPECT(mine == id);
  ANSWER(CUDA_ERROR_INVALID_CONTEXT, cuGreenCtxGetId(nullptr, &mine));
  ANSWER(CUDA_ERROR_INVALID_VALUE, cuGreenCtxGetId(green, nullptr));
  ANSWER(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(as));
  ANSWER(CUDA_ERROR_NOT_PERMITTED, cuDevicePrimaryCtxReset(0));
  CUdevResource part, its, whole;
  ANSWER(CUDA_ERROR_INVALID_CONTEXT,
         cuCtxGetDevResource(nullptr, &whole, CU_DEV_RESOURCE_TYPE_SM));
  CHECK(cuGreenCtxGetDevResource(green, &part, CU_DEV_RESOURCE_TYPE_SM));
  CHECK(cuCtxGetDevResource(as, &its, CU_DEV_RESOURCE_TYPE_SM));
  CHECK(cuCtxGetDevResource(primary, &whole, CU_DEV_RESOURCE_TYPE_SM));
  EXPECT(part.sm.smCount == its.sm.smCount);
  EXPECT(part.sm.smCount <= whole.sm.smCount);
  ANSWER(CUDA_ERROR_INVALID_VALUE,
         cuGreenCtxGetDevResource(green, nullptr, CU_DEV_RESOURCE_TYPE_SM));
  ANSWER(CUDA_ERROR_INVALID_CONTEXT,
         cuGreenCtxGetDevResource(nullptr, &part, CU_DEV_RESOURCE_TYPE_SM));
  CHECK(cuCtxPushCurrent(as));
  CHECK(cuCtxGetCurrent(&current));
  EXPECT(current == as);
  CHECK(cuGreenCtxGetId(nullptr, &mine));
  EXPECT(mine == id);
  CUdevice device = -1;
  CHECK(cuCtxGetDevice(&device));
  EXPECT(device == 0);
  // Memory belongs to the primary context.
  CUdeviceptr memory;
  CHECK(cuMemAlloc(&memory, 64));
  CHECK(cuPointerGetAttribute(&current, CU_POINTER_ATTRIBUTE_CONTEXT, memory));
  EXPECT(current == primary);
  CHECK(cuCtxPopCurrent(&current));
  EXPECT(current == as);
  CHECK(cuMemFree(memory));
  CHECK(cuGreenCtxDestroy(green));
}

// -- streams ------------------------------------------------------------------

static void streams(const parts& of) {
  printf("streams\n");
  CUcontext primary, as, where;
  CHECK(cuCtxGetCurrent(&primary));
  CUgreenCtx green, whose;
  CHECK(cuGreenCtxCreate(&green, of.first, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  CHECK(cuCtxFromGreenCtx(&as, green));
  CUstream made, plain, within;
  ANSWER(CUDA_ERROR_INVALID_VALUE,
         cuGreenCtxStreamCreate(&made, green, CU_STREAM_DEFAULT, 0));
  ANSWER(CUDA_ERROR_INVALID_VALUE,
         cuGreenCtxStreamCreate(nullptr, green, CU_STREAM_NON_BLOCKING, 0));
  ANSWER(CUDA_ERROR_INVALID_CONTEXT,
         cuGreenCtxStreamCreate(&made, nullptr, CU_STREAM_NON_BLOCKING, 0));
  CHECK(cuGreenCtxStreamCreate(&made, green, CU_STREAM_NON_BLOCKING, -99));
  int priority = 0, least, greatest;
  CHECK(cuCtxGetStreamPriorityRange(&least, &greatest));
  CHECK(cuStreamGetPriority(made, &priority));
  EXPECT(priority == greatest);
  CHECK(cuStreamCreate(&plain, CU_STREAM_NON_BLOCKING));
  CHECK(cuCtxPushCurrent(as));
  CHECK(cuStreamCreate(&within, CU_STREAM_DEFAULT));
  unsigned flags = 0;
  CHECK(cuStreamGetFlags(within, &flags));
  printf("  flags of a plain stream: %u\n", flags);
  CHECK(cuStreamGetGreenCtx(nullptr, &whose));
  EXPECT(whose == green);
  ANSWER(CUDA_ERROR_INVALID_HANDLE,
         cuStreamGetGreenCtx(CU_STREAM_PER_THREAD, &whose));
  ANSWER(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(CU_STREAM_PER_THREAD));
  CHECK(cuStreamGetCtx_v2(nullptr, &where, &whose));
  EXPECT(where == primary && whose == green);
  CHECK(cuCtxPopCurrent(&where));
  for (auto stream : {made, within}) {
    CHECK(cuStreamGetGreenCtx(stream, &whose));
    EXPECT(whose == green);
    CHECK(cuStreamGetCtx(stream, &where));
    EXPECT(where == as);
    CHECK(cuStreamGetCtx_v2(stream, &where, &whose));
    EXPECT(where == primary && whose == green);
  }
  CHECK(cuStreamGetGreenCtx(plain, &whose));
  EXPECT(whose == nullptr);
  CHECK(cuStreamGetGreenCtx(nullptr, &whose));
  EXPECT(whose == nullptr);
  CHECK(cuStreamDestroy(within));
  CHECK(cuStreamDestroy(plain));
  CHECK(cuGreenCtxDestroy(green));
  ANSWER(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuStreamQuery(made));
  ANSWER(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuStreamSynchronize(made));
  ANSWER(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuStreamDestroy(made));
}

// -- work ---------------------------------------------------------------------

/// Both halves count, in their streams and their default streams, and each sees
/// the other's earlier results.
static void work(const parts& of) {
  printf("work\n");
  int* count;
  CHECK(cudaMalloc(&count, sizeof *count));
  CHECK(cudaMemset(count, 0, sizeof *count));
  CUgreenCtx greens[2];
  CUcontext as[2];
  CUstream made[2];
  CHECK(cuGreenCtxCreate(&greens[0], of.first, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  CHECK(
      cuGreenCtxCreate(&greens[1], of.second, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  CUevent done;
  CHECK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
  for (int i = 0; i < 2; ++i) {
    CHECK(cuCtxFromGreenCtx(&as[i], greens[i]));
    CHECK(
        cuGreenCtxStreamCreate(&made[i], greens[i], CU_STREAM_NON_BLOCKING, 0));
  }
  CHECK(cudaDeviceSynchronize());
  for (int round = 0; round < 50; ++round) {
    auto me = round % 2, other = 1 - me;
    // This uses the runtime while a green context is current.
    CHECK(cuCtxPushCurrent(as[me]));
    add<<<8, 32>>>(count, 1);
    CHECK(cudaGetLastError());
    CHECK(cuCtxPopCurrent(nullptr));
    add<<<8, 32, 0, made[me]>>>(count, 1);
    CHECK(cudaGetLastError());
    CHECK(cuGreenCtxRecordEvent(greens[me], done));
    CHECK(cuGreenCtxWaitEvent(greens[other], done));
    // All earlier results are visible.
    int seen = -1;
    CHECK(cudaMemcpyAsync(&seen, count, sizeof seen, cudaMemcpyDeviceToHost,
                          made[other]));
    CHECK(cuStreamSynchronize(made[other]));
    EXPECT(seen == (round + 1) * 2 * 8 * 32);
  }
  CUcontext primary;
  CHECK(cuCtxGetCurrent(&primary));
  CHECK(cuCtxRecordEvent(primary, done));
  CHECK(cuEventSynchronize(done));
  CHECK(cuCtxWaitEvent(primary, done));
  CHECK(cudaFree(count));
  CHECK(cuEventDestroy(done));
  for (int i = 0; i < 2; ++i) {
    CHECK(cuStreamDestroy(made[i]));
    CHECK(cuGreenCtxDestroy(greens[i]));
  }
}

static void events(const parts& of) {
  printf("events\n");
  CUcontext primary, other;
  CHECK(cuCtxGetCurrent(&primary));
  CUgreenCtx green;
  CHECK(cuGreenCtxCreate(&green, of.first, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  CUevent here, there;
  CHECK(cuEventCreate(&here, 0));
  CHECK(cuCtxCreate(&other, nullptr, 0, 0));
  CHECK(cuEventCreate(&there, 0));
  CHECK(cuCtxPopCurrent(nullptr));
  ANSWER(CUDA_SUCCESS, cuGreenCtxRecordEvent(green, here));
  ANSWER(CUDA_ERROR_INVALID_HANDLE, cuGreenCtxRecordEvent(green, there));
  ANSWER(CUDA_ERROR_INVALID_HANDLE, cuGreenCtxRecordEvent(green, nullptr));
  ANSWER(CUDA_ERROR_INVALID_CONTEXT, cuGreenCtxRecordEvent(nullptr, here));
  ANSWER(CUDA_SUCCESS, cuGreenCtxWaitEvent(green, there));
  ANSWER(CUDA_ERROR_INVALID_HANDLE, cuGreenCtxWaitEvent(green, nullptr));
  ANSWER(CUDA_ERROR_INVALID_CONTEXT, cuGreenCtxWaitEvent(nullptr, here));
  ANSWER(CUDA_SUCCESS, cuCtxRecordEvent(primary, here));
  ANSWER(CUDA_ERROR_INVALID_HANDLE, cuCtxRecordEvent(primary, there));
  ANSWER(CUDA_SUCCESS, cuCtxRecordEvent(other, there));
  ANSWER(CUDA_ERROR_INVALID_CONTEXT, cuCtxRecordEvent(nullptr, here));
  ANSWER(CUDA_SUCCESS, cuCtxWaitEvent(primary, there));
  ANSWER(CUDA_ERROR_INVALID_CONTEXT, cuCtxWaitEvent(nullptr, here));
  CHECK(cuCtxSynchronize());
  CUstream made;
  CUgraph graph;
  CHECK(cuGreenCtxStreamCreate(&made, green, CU_STREAM_NON_BLOCKING, 0));
  CHECK(cuStreamBeginCapture(made, CU_STREAM_CAPTURE_MODE_RELAXED));
  ANSWER(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
         cuGreenCtxRecordEvent(green, here));
  ANSWER(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
         cuStreamEndCapture(made, &graph));
  CHECK(cuStreamDestroy(made));
  CHECK(cuCtxDestroy(other));
  CHECK(cuGreenCtxDestroy(green));
}

int main() {
  CHECK(cudaFree(nullptr));
  resources();
  parts of;
  contexts(of);
  streams(of);
  work(of);
  events(of);
  CHECK(cudaDeviceSynchronize());
  printf("ok\n");
}
