// What a stream keeps: a window of accesses and how the host waits. They are
// told again and copied to another stream.
#include "../check.hpp"

int main() {
  cudaDeviceProp device;
  CHECK(cudaGetDeviceProperties(&device, 0));
  cudaStream_t a, b;
  CHECK(cudaStreamCreate(&a));
  CHECK(cudaStreamCreate(&b));
  char* memory;
  CHECK(cudaMalloc(&memory, 1 << 16));
  cudaStreamAttrValue value = {}, got = {};
  auto& w = value.accessPolicyWindow;
  w.base_ptr = memory;
  w.num_bytes = 4096;
  w.hitRatio = 0.5F;
  w.hitProp = cudaAccessPropertyPersisting;
  w.missProp = cudaAccessPropertyStreaming;
  if (device.accessPolicyMaxWindowSize >= 4096) {
    constexpr auto window = cudaStreamAttributeAccessPolicyWindow;
    CHECK(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 1 << 20));
    CHECK(cudaStreamSetAttribute(a, window, &value));
    CHECK(cudaStreamCopyAttributes(b, a));
    CHECK(cudaStreamGetAttribute(b, window, &got));
    EXPECT(got.accessPolicyWindow.base_ptr == memory);
    EXPECT(got.accessPolicyWindow.num_bytes == 4096);
    EXPECT(got.accessPolicyWindow.hitRatio == 0.5F);
    EXPECT(got.accessPolicyWindow.hitProp == cudaAccessPropertyPersisting);
    w.hitRatio = 1.5F;
    EXPECT(cudaStreamSetAttribute(a, window, &value) == cudaErrorInvalidValue);
    cudaGetLastError();
    CHECK(cudaMemsetAsync(memory, 1, 1 << 16, a));
    CHECK(cudaCtxResetPersistingL2Cache());
  }
  value = {};
  value.syncPolicy = cudaSyncPolicyBlockingSync;
  constexpr auto policy = cudaStreamAttributeSynchronizationPolicy;
  CHECK(cudaStreamSetAttribute(a, policy, &value));
  CHECK(cudaStreamGetAttribute(a, policy, &got));
  EXPECT(got.syncPolicy == cudaSyncPolicyBlockingSync);
  CHECK(cudaStreamGetAttribute(a, cudaLaunchAttributePriority, &got));
  EXPECT(got.priority == 0);
  CHECK(cudaStreamSynchronize(a));
  CHECK(cudaStreamDestroy(a));
  CHECK(cudaStreamDestroy(b));
  CHECK(cudaFree(memory));
  std::printf("ok\n");
}
