// Shared memory whose size is given at launch, also beyond 48 KiB by opting
// in.
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

extern __shared__ unsigned char raw[];

__global__ void reverse(const int* in, int* out, int n) {
  int* ints = reinterpret_cast<int*>(raw);
  short* marks = reinterpret_cast<short*>(ints + n);
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    ints[i] = in[i];
    marks[i] = static_cast<short>(i % 100);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    out[i] = ints[n - 1 - i] + marks[n - 1 - i];
}

static bool run(int n) {
  std::vector<int> in(n), out(n);
  std::iota(in.begin(), in.end(), 1000);
  int *a, *b;
  if (cudaMalloc(&a, n * 4) != cudaSuccess ||
      cudaMalloc(&b, n * 4) != cudaSuccess)
    return false;
  cudaMemcpy(a, in.data(), n * 4, cudaMemcpyHostToDevice);
  reverse<<<1, 128, n * 6>>>(a, b, n);
  if (cudaGetLastError() != cudaSuccess)
    return false;
  cudaMemcpy(out.data(), b, n * 4, cudaMemcpyDeviceToHost);
  cudaFree(a);
  cudaFree(b);
  for (int i = 0; i < n; ++i)
    if (out[i] != 1000 + n - 1 - i + (n - 1 - i) % 100)
      return false;
  return true;
}

int main() {
  if (!run(10) || !run(1000) || !run(8192)) {
    printf("wrong within 48 KiB\n");
    return 1;
  }
  int most = 0;
  cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
  if (most > 48 * 1024) {
    if (run(most / 6)) {
      printf("%d bytes without opting in\n", most);
      return 1;
    }
    cudaError_t e = cudaFuncSetAttribute(
        reverse, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
    if (e != cudaSuccess || !run(most / 6)) {
      printf("wrong with %d bytes: %s\n", most, cudaGetErrorName(e));
      return 1;
    }
  }
  printf("ok\n");
}
