// A tool in the program: CUPTI's callbacks for streams that come and go, and
// for waits.
#include "cupti.hpp"

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

struct event {
  CUpti_CallbackDomain domain;
  CUpti_CallbackId id;
  CUcontext context;
  CUstream stream;
};
std::vector<event> heard;

void CUPTIAPI hear(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                   const void* data) {
  if (domain == CUPTI_CB_DOMAIN_SYNCHRONIZE) {
    auto* x = static_cast<const CUpti_SynchronizeData*>(data);
    heard.push_back({domain, id, x->context, x->stream});
  } else {
    auto* x = static_cast<const CUpti_ResourceData*>(data);
    heard.push_back({domain, id, x->context, x->resourceHandle.stream});
  }
}

/// Returns how often this was heard of the stream since the last look.
int take(CUpti_CallbackDomain domain, int id, CUstream stream, bool any) {
  int out = 0;
  for (auto& x : heard)
    if (x.domain == domain && static_cast<int>(x.id) == id &&
        (any || x.stream == stream)) {
      EXPECT(x.context != nullptr);
      ++out;
    }
  heard.clear();
  return out;
}

int main() {
  EXPECT(cudaFree(nullptr) == cudaSuccess);
  CUpti_SubscriberHandle one = nullptr;
  EXPECT(CUPTI(cuptiSubscribe)(&one, hear, nullptr) == CUPTI_SUCCESS);
  auto enable = [&](CUpti_CallbackDomain in, int id) {
    EXPECT(CUPTI(cuptiEnableCallback)(
               1, one, in, static_cast<CUpti_CallbackId>(id)) == CUPTI_SUCCESS);
  };
  enable(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_STREAM_CREATED);
  enable(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING);
  enable(CUPTI_CB_DOMAIN_SYNCHRONIZE,
         CUPTI_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED);
  enable(CUPTI_CB_DOMAIN_SYNCHRONIZE,
         CUPTI_CBID_SYNCHRONIZE_CONTEXT_SYNCHRONIZED);

  cudaStream_t stream = nullptr;
  EXPECT(cudaStreamCreate(&stream) == cudaSuccess);
  EXPECT(take(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_STREAM_CREATED,
              stream, false) == 1);
  EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
  EXPECT(take(CUPTI_CB_DOMAIN_SYNCHRONIZE,
              CUPTI_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED, stream, false) == 1);
  EXPECT(cudaDeviceSynchronize() == cudaSuccess);
  EXPECT(take(CUPTI_CB_DOMAIN_SYNCHRONIZE,
              CUPTI_CBID_SYNCHRONIZE_CONTEXT_SYNCHRONIZED, nullptr, true) == 1);
  EXPECT(cudaStreamDestroy(stream) == cudaSuccess);
  EXPECT(take(CUPTI_CB_DOMAIN_RESOURCE,
              CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING, stream, false) == 1);

  // Nothing is heard any more.
  EXPECT(CUPTI(cuptiUnsubscribe)(one) == CUPTI_SUCCESS);
  EXPECT(cudaDeviceSynchronize() == cudaSuccess);
  EXPECT(heard.empty());
  std::printf("ok\n");
}
