// A kernel that writes to an unmapped address: this and every later call
// returns the error.
#include <cstdio>

__global__ void stray(int* p) {
  *p = 1;
}

int main() {
  int* fine = nullptr;
  if (cudaMalloc(&fine, 4) != cudaSuccess)
    return 1;
  stray<<<1, 1>>>(fine);
  if (cudaDeviceSynchronize() != cudaSuccess)
    return 1;

  stray<<<1, 1>>>(reinterpret_cast<int*>(0x10));
  cudaError_t launch = cudaGetLastError();
  cudaError_t sync = cudaDeviceSynchronize();
  cudaError_t again = cudaDeviceSynchronize();
  void* p = nullptr;
  cudaError_t alloc = cudaMalloc(&p, 16);
  int value;
  cudaError_t copy = cudaMemcpy(&value, fine, 4, cudaMemcpyDeviceToHost);
  cudaError_t last = cudaGetLastError();
  cudaError_t last_again = cudaGetLastError();
  printf("launch %s, then %s, %s, malloc %s, copy %s, last %s, %s\n",
         cudaGetErrorName(launch), cudaGetErrorName(sync),
         cudaGetErrorName(again), cudaGetErrorName(alloc),
         cudaGetErrorName(copy), cudaGetErrorName(last),
         cudaGetErrorName(last_again));
  const cudaError_t bad = cudaErrorIllegalAddress;
  bool right = launch == cudaSuccess && sync == bad && again == bad &&
               alloc == bad && copy == bad && last == bad &&
               last_again == cudaSuccess;
  printf(right ? "ok\n" : "not as the real runtime answers\n");
  return right ? 0 : 1;
}
