// Launches with cudaLaunchKernelEx, cudaLaunchKernel and cudaLaunchKernelExC.
#include <cstdio>

struct pair {
  int first;
  double second;
};

__global__ void store(double* out, pair p, float factor, char add) {
  out[threadIdx.x] = (p.first + p.second * threadIdx.x) * factor + add;
}

int main() {
  double *out, got[32];
  if (cudaMalloc(&out, 3 * 32 * sizeof(double)) != cudaSuccess)
    return 1;
  cudaStream_t stream;
  cudaStreamCreate(&stream);

  cudaLaunchAttribute attribute[1];
  attribute[0].id = cudaLaunchAttributePriority;
  attribute[0].val.priority = 0;
  cudaLaunchConfig_t config = {};
  config.gridDim = 1;
  config.blockDim = 32;
  config.stream = stream;
  config.attrs = attribute;
  config.numAttrs = 1;
  pair p = {10, 0.5};
  float factor = 2.0f;
  char add = -3;
  if (cudaLaunchKernelEx(&config, store, out, p, factor, add) != cudaSuccess) {
    printf("cudaLaunchKernelEx: %s\n", cudaGetErrorString(cudaGetLastError()));
    return 1;
  }
  double* second = out + 32;
  void* arguments[] = {&second, &p, &factor, &add};
  if (cudaLaunchKernel((const void*)store, dim3(1), dim3(32), arguments, 0,
                       stream) != cudaSuccess)
    return 1;
  // Clusters of one block run on any device. Larger ones run if the device has
  // clusters, and otherwise only their launch is refused.
  int device = 0, clusters = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&clusters, cudaDevAttrClusterLaunch, device);
  attribute[0].id = cudaLaunchAttributeClusterDimension;
  attribute[0].val.clusterDim.x = 1;
  attribute[0].val.clusterDim.y = 1;
  attribute[0].val.clusterDim.z = 1;
  if (cudaLaunchKernelEx(&config, store, out, p, factor, add) != cudaSuccess) {
    printf("a cluster of one: %s\n", cudaGetErrorString(cudaGetLastError()));
    return 1;
  }
  attribute[0].val.clusterDim.x = 2;
  config.gridDim = 2;
  cudaError_t got_code =
      cudaLaunchKernelEx(&config, store, out, p, factor, add);
  if (got_code != (clusters ? cudaSuccess : cudaErrorNotSupported)) {
    printf("a cluster of two: %s\n", cudaGetErrorString(got_code));
    return 1;
  }
  (void)cudaGetLastError();
  config.gridDim = 1;
  double* third = out + 64;
  arguments[0] = &third;
  config.numAttrs = 0;
  config.attrs = nullptr;
  if (cudaLaunchKernelExC(&config, (const void*)store, arguments) !=
      cudaSuccess)
    return 1;
  if (cudaStreamSynchronize(stream) != cudaSuccess)
    return 1;

  for (int launch = 0; launch < 3; ++launch) {
    cudaMemcpy(got, out + 32 * launch, sizeof got, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 32; ++i) {
      if (got[i] != (10 + 0.5 * i) * 2 - 3) {
        printf("launch %d, thread %d: %g\n", launch, i, got[i]);
        return 1;
      }
    }
  }
  printf("ok\n");
}
