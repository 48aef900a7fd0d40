// Indirect calls on the device, virtual functions and recursion.
#include <cstdio>

typedef int (*binary)(int, int);

__device__ int add(int a, int b) {
  return a + b;
}
__device__ int multiply(int a, int b) {
  return a * b;
}
__device__ int larger(int a, int b) {
  return a > b ? a : b;
}
__device__ binary operations[3] = {add, multiply, larger};

__global__ void apply(int which, int* out) {
  out[threadIdx.x] = operations[which](threadIdx.x, 7);
}

__global__ void apply_each(int* out) {
  // Lanes of a warp call different functions.
  out[threadIdx.x] = operations[threadIdx.x % 3](threadIdx.x, 7);
}

struct shape {
  __device__ virtual int area() const = 0;
};
struct square : shape {
  int side;
  __device__ square(int s) : side(s) {}
  __device__ int area() const override { return side * side; }
};
struct rectangle : shape {
  int a, b;
  __device__ rectangle(int x, int y) : a(x), b(y) {}
  __device__ int area() const override { return a * b; }
};

__global__ void areas(int* out) {
  square s(threadIdx.x);
  rectangle r(threadIdx.x, 3);
  const shape* shapes[2] = {&s, &r};
  out[threadIdx.x] = shapes[threadIdx.x & 1]->area();
}

__device__ __noinline__ int fibonacci(int n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}
__global__ void recurse(int* out) {
  out[threadIdx.x] = fibonacci(threadIdx.x % 12);
}

static int operation(int which, int a, int b) {
  return which == 0 ? a + b : which == 1 ? a * b : a > b ? a : b;
}

static int host_fibonacci(int n) {
  int a = 0, b = 1;
  while (n-- > 0) {
    int next = a + b;
    a = b;
    b = next;
  }
  return a;
}

int main() {
  int *dev, got[64], wrong = 0;
  if (cudaMalloc(&dev, sizeof got) != cudaSuccess)
    return 1;
  for (int which = 0; which < 3; ++which) {
    apply<<<1, 64>>>(which, dev);
    cudaMemcpy(got, dev, sizeof got, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 64; ++i)
      wrong += got[i] != operation(which, i, 7);
  }
  apply_each<<<1, 64>>>(dev);
  cudaMemcpy(got, dev, sizeof got, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 64; ++i)
    wrong += got[i] != operation(i % 3, i, 7);
  areas<<<1, 64>>>(dev);
  cudaMemcpy(got, dev, sizeof got, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 64; ++i)
    wrong += got[i] != (i & 1 ? 3 * i : i * i);
  recurse<<<1, 64>>>(dev);
  cudaMemcpy(got, dev, sizeof got, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 64; ++i)
    wrong += got[i] != host_fibonacci(i % 12);
  cudaError_t e = cudaGetLastError();
  if (wrong || e != cudaSuccess) {
    printf("%d wrong, %s\n", wrong, cudaGetErrorString(e));
    return 1;
  }
  printf("ok\n");
}
