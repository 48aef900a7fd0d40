// A profiler in the program: CUPTI's records of kernels, copies, memsets and
// waits, opened at run time as PyTorch and TensorFlow do.
#include "cupti.hpp"

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

__global__ void scale(float* x, int n) {
  auto i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    x[i] *= 2;
}
__global__ void shift(float* x, int n) {
  auto i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    x[i] += 1;
}

struct kernel {
  std::string name;
  CUpti_ActivityKernel9 what;
};
struct seen {
  std::vector<kernel> kernels;
  std::vector<CUpti_ActivityMemcpy5> copies;
  std::vector<CUpti_ActivityMemset4> memsets;
  std::vector<CUpti_ActivitySynchronization> waits;
  std::vector<CUpti_ActivityAPI> runtime;
  std::map<std::uint32_t, std::uint64_t> external;
  int buffers = 0; // that came back
  int lent = 0;    // that did not
} recorded;

void CUPTIAPI request(std::uint8_t** buffer, size_t* size, size_t* most) {
  *size = 4096;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, *size));
  *most = 0;
  ++recorded.lent;
}

void CUPTIAPI complete(CUcontext, std::uint32_t, std::uint8_t* buffer, size_t,
                       size_t valid) {
  ++recorded.buffers;
  --recorded.lent;
  CUpti_Activity* x = nullptr;
  while (valid != 0 &&
         CUPTI(cuptiActivityGetNextRecord)(buffer, valid, &x) == CUPTI_SUCCESS)
    switch (x->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      auto* k = reinterpret_cast<CUpti_ActivityKernel9*>(x);
      recorded.kernels.push_back({k->name, *k});
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      recorded.copies.push_back(*reinterpret_cast<CUpti_ActivityMemcpy5*>(x));
      break;
    case CUPTI_ACTIVITY_KIND_MEMSET:
      recorded.memsets.push_back(*reinterpret_cast<CUpti_ActivityMemset4*>(x));
      break;
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      recorded.waits.push_back(
          *reinterpret_cast<CUpti_ActivitySynchronization*>(x));
      break;
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      recorded.runtime.push_back(*reinterpret_cast<CUpti_ActivityAPI*>(x));
      break;
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      auto* e = reinterpret_cast<CUpti_ActivityExternalCorrelation*>(x);
      recorded.external[e->correlationId] = e->externalId;
      break;
    }
    default:
      break;
    }
  std::free(buffer);
}

int main() {
  constexpr int n = 1 << 16;
  constexpr int rounds = 20;
  for (auto kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
        CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
        CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION})
    EXPECT(CUPTI(cuptiActivityEnable)(kind) == CUPTI_SUCCESS);
  EXPECT(CUPTI(cuptiActivityRegisterCallbacks)(request, complete) ==
         CUPTI_SUCCESS);
  std::uint64_t before = 0, after = 0;
  EXPECT(CUPTI(cuptiGetTimestamp)(&before) == CUPTI_SUCCESS);

  std::vector<float> host(n, 1);
  float* x = nullptr;
  cudaStream_t stream;
  CHECK(cudaMalloc(&x, n * sizeof *x));
  CHECK(cudaStreamCreate(&stream));
  EXPECT(recorded.lent > 0);
  CHECK(cudaMemset(x, 0, n * sizeof *x));
  CHECK(cudaMemcpy(x, host.data(), n * sizeof *x, cudaMemcpyHostToDevice));
  EXPECT(CUPTI(cuptiActivityPushExternalCorrelationId)(
             CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, 77) == CUPTI_SUCCESS);
  for (int i = 0; i < rounds; ++i)
    scale<<<n / 256, 256, 64, stream>>>(x, n);
  std::uint64_t last = 0;
  EXPECT(CUPTI(cuptiActivityPopExternalCorrelationId)(
             CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last) == CUPTI_SUCCESS);
  EXPECT(last == 77);
  EXPECT(CUPTI(cuptiActivityPopExternalCorrelationId)(
             CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last) ==
         CUPTI_ERROR_QUEUE_EMPTY);
  shift<<<n / 128, 128>>>(x, n);
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaMemcpy(host.data(), x, n * sizeof *x, cudaMemcpyDeviceToHost));
  CHECK(cudaDeviceSynchronize());

  EXPECT(CUPTI(cuptiActivityFlushAll)(0) == CUPTI_SUCCESS);
  EXPECT(CUPTI(cuptiGetTimestamp)(&after) == CUPTI_SUCCESS);

  EXPECT(recorded.buffers > 1);
  EXPECT(recorded.kernels.size() == rounds + 1);
  int scales = 0;
  std::uint64_t end = 0;
  for (auto& k : recorded.kernels) {
    EXPECT(k.what.start >= before && k.what.start < k.what.end &&
           k.what.end <= after);
    EXPECT(k.what.correlationId != 0 && k.what.deviceId == 0);
    if (k.name.find("scale") == std::string::npos) {
      EXPECT(k.name.find("shift") != std::string::npos);
      EXPECT(k.what.gridX == n / 128 && k.what.blockX == 128);
      EXPECT(recorded.external.count(k.what.correlationId) == 0);
      continue;
    }
    ++scales;
    EXPECT(k.what.gridX == n / 256 && k.what.blockX == 256 &&
           k.what.gridY == 1 && k.what.dynamicSharedMemory == 64);
    // One stream runs one kernel after the other.
    EXPECT(k.what.start >= end);
    end = k.what.end;
    EXPECT(recorded.external[k.what.correlationId] == 77);
  }
  EXPECT(scales == rounds);

  int launches = 0;
  for (auto& r : recorded.runtime)
    for (auto& k : recorded.kernels)
      if (r.correlationId == k.what.correlationId) {
        ++launches;
        EXPECT(r.start <= r.end && r.start <= k.what.end);
        const char* name = nullptr;
        EXPECT(CUPTI(cuptiGetCallbackName)(CUPTI_CB_DOMAIN_RUNTIME_API, r.cbid,
                                           &name) == CUPTI_SUCCESS);
        EXPECT(std::strncmp(name, "cudaLaunchKernel", 16) == 0);
      }
  EXPECT(launches == rounds + 1);

  EXPECT(recorded.copies.size() == 2);
  EXPECT(recorded.copies[0].copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD);
  EXPECT(recorded.copies[1].copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH);
  for (auto& c : recorded.copies)
    EXPECT(c.bytes == n * sizeof *x && c.start < c.end);
  EXPECT(recorded.memsets.size() == 1);
  EXPECT(recorded.memsets[0].bytes == n * sizeof *x &&
         recorded.memsets[0].value == 0);
  bool stream_wait = false, context_wait = false;
  for (auto& w : recorded.waits) {
    stream_wait |=
        w.type == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE;
    context_wait |=
        w.type == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE;
  }
  EXPECT(stream_wait && context_wait);

  size_t dropped = 1;
  EXPECT(CUPTI(cuptiActivityGetNumDroppedRecords)(nullptr, 0, &dropped) ==
         CUPTI_SUCCESS);
  EXPECT(dropped == 0);

  // What was recorded before it is disabled comes with the next flush. Until
  // then the tool knows of a buffer: PyTorch's profiler flushes only then.
  shift<<<1, 32, 0, stream>>>(x, 32);
  CHECK(cudaDeviceSynchronize());
  EXPECT(CUPTI(cuptiActivityDisable)(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) ==
         CUPTI_SUCCESS);
  EXPECT(recorded.lent > 0);
  EXPECT(CUPTI(cuptiActivityFlushAll)(1) == CUPTI_SUCCESS);
  EXPECT(recorded.kernels.size() == rounds + 2);

  // Functions of the runtime are chosen one by one, too.
  auto cbid = recorded.runtime.front().cbid;
  for (auto& r : recorded.runtime)
    for (auto& k : recorded.kernels)
      if (r.correlationId == k.what.correlationId)
        cbid = r.cbid;
  auto records = [&] {
    recorded.runtime.clear();
    shift<<<1, 32, 0, stream>>>(x, 32);
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(CUPTI(cuptiActivityFlushAll)(1) == CUPTI_SUCCESS);
    std::size_t launches = 0;
    for (auto& r : recorded.runtime)
      launches += r.cbid == cbid ? 1 : 0;
    return std::make_pair(launches, recorded.runtime.size() - launches);
  };
  EXPECT(records().first == 1);
  EXPECT(CUPTI(cuptiActivityEnableRuntimeApi)(cbid, 0) == CUPTI_SUCCESS);
  auto without = records();
  EXPECT(without.first == 0 && without.second > 0);
  EXPECT(CUPTI(cuptiActivityEnableRuntimeApi)(cbid, 1) == CUPTI_SUCCESS);
  EXPECT(records().first == 1);

  // Nothing is recorded any more.
  shift<<<1, 32, 0, stream>>>(x, 32);
  CHECK(cudaDeviceSynchronize());
  EXPECT(CUPTI(cuptiActivityFlushAll)(1) == CUPTI_SUCCESS);
  EXPECT(recorded.kernels.size() == rounds + 2);
  CHECK(cudaFree(x));
  std::printf("ok\n");
}
