// Structures by value: mixed alignment, pointers inside, and one near the
// 4 KiB that every device takes as parameters.
#include <cstdio>
#include <cstring>

struct mixed {
  char c;
  double d;
  short s[3];
  bool b;
  int* p;
};

struct large {
  int values[1000];
};

struct alignas(16) vector4 {
  float x, y, z, w;
};

__global__ void use(mixed m, char first, vector4 v, double* out) {
  if (m.b)
    *m.p = m.c + m.s[2];
  *out = m.d + first + v.x * v.w;
}

__global__ void sum_large(large l, char tail, int* out) {
  int sum = 0;
  for (int i = threadIdx.x; i < 1000; i += 32)
    sum += l.values[i];
  atomicAdd(out, sum + (threadIdx.x == 0 ? tail : 0));
}

int main() {
  int* ints;
  double* d;
  if (cudaMalloc(&ints, 2 * sizeof(int)) || cudaMalloc(&d, sizeof(double)))
    return 1;
  cudaMemset(ints, 0, 2 * sizeof(int));
  mixed m = {};
  m.c = 'x';
  m.d = 1.25;
  m.s[2] = -1000;
  m.b = true;
  m.p = ints;
  use<<<1, 1>>>(m, 2, vector4{0.5f, 9, 9, 8}, d);
  large l;
  int want = 100;
  for (int i = 0; i < 1000; ++i) {
    l.values[i] = i * i;
    want += i * i;
  }
  sum_large<<<1, 32>>>(l, 100, ints + 1);
  // The launch copied its parameters, so they may be overwritten at once.
  memset(&l, 0xff, sizeof l);
  m.d = -1;
  int got[2];
  double sum;
  cudaMemcpy(got, ints, sizeof got, cudaMemcpyDeviceToHost);
  cudaMemcpy(&sum, d, sizeof sum, cudaMemcpyDeviceToHost);
  if (cudaGetLastError() != cudaSuccess || got[0] != 'x' - 1000 ||
      got[1] != want || sum != 1.25 + 2 + 4) {
    printf("%d, %d of %d, %g\n", got[0], got[1], want, sum);
    return 1;
  }
  printf("ok\n");
}
