// Constant memory, written and read through its symbol.
#include <cstdio>

__constant__ float weights[16];
__constant__ struct {
  int scale;
  double offset;
} settings = {3, 0.5};

__global__ void convolve(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  float sum = 0;
  for (int k = 0; k < 16; ++k)
    sum += weights[k] * in[(i + k) % n];
  out[i] = sum * settings.scale + (float)settings.offset;
}

int main() {
  const int n = 1000;
  float w[16], in[n], out[n], read[16];
  for (int k = 0; k < 16; ++k)
    w[k] = (float)(k + 1);
  for (int i = 0; i < n; ++i)
    in[i] = (float)(i % 5);

  cudaMemcpyToSymbol(weights, w, sizeof w);
  // Once more, only the last four, at an offset.
  w[12] = w[13] = w[14] = w[15] = -2;
  cudaMemcpyToSymbol(weights, w + 12, 4 * sizeof(float), 12 * sizeof(float));
  cudaMemcpyFromSymbol(read, weights, sizeof read);
  for (int k = 0; k < 16; ++k) {
    if (read[k] != w[k]) {
      printf("weight %d reads %g\n", k, read[k]);
      return 1;
    }
  }
  size_t size = 0;
  cudaGetSymbolSize(&size, weights);
  if (size != sizeof weights) {
    printf("symbol of %zu bytes\n", size);
    return 1;
  }

  float *dIn, *dOut;
  cudaMalloc(&dIn, sizeof in);
  cudaMalloc(&dOut, sizeof out);
  cudaMemcpy(dIn, in, sizeof in, cudaMemcpyHostToDevice);
  convolve<<<(n + 63) / 64, 64>>>(dIn, dOut, n);
  cudaMemcpy(out, dOut, sizeof out, cudaMemcpyDeviceToHost);
  for (int i = 0; i < n; ++i) {
    float sum = 0;
    for (int k = 0; k < 16; ++k)
      sum += w[k] * in[(i + k) % n];
    if (out[i] != sum * 3 + 0.5f) {
      printf("%d: %g instead of %g\n", i, out[i], sum * 3 + 0.5f);
      return 1;
    }
  }
  cudaError_t e = cudaGetLastError();
  printf("%s\n", e == cudaSuccess ? "ok" : cudaGetErrorString(e));
  return e != cudaSuccess;
}
