// A kernel that launches a kernel: it either works, or is refused as not
// supported, and the program continues.
// nvcc: -rdc=true -lcudadevrt
#include <cstdio>

__global__ void child(int* p) {
  p[threadIdx.x] = threadIdx.x * 3;
}

__global__ void parent(int* p) {
  child<<<1, 32>>>(p);
}

int main() {
  int *p, got[32] = {};
  if (cudaMalloc(&p, sizeof got) != cudaSuccess ||
      cudaMemset(p, 0, sizeof got) != cudaSuccess)
    return 1;
  parent<<<1, 1>>>(p);
  cudaError_t e = cudaGetLastError();
  if (cudaMemcpy(got, p, sizeof got, cudaMemcpyDeviceToHost) != cudaSuccess)
    return 1;
  int expected = 0;
  if (e == cudaSuccess)
    expected = 3;
  else if (e != cudaErrorNotSupported) {
    std::printf("launch: %s\n", cudaGetErrorString(e));
    return 1;
  }
  for (int i = 0; i < 32; ++i)
    if (got[i] != i * expected) {
      std::printf("%d is %d\n", i, got[i]);
      return 1;
    }
  std::printf("ok\n");
}
