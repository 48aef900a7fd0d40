// Half and bfloat16 arithmetic.
#include <cstdio>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__global__ void compute(float* out) {
  int i = threadIdx.x;
  __half a = __float2half(0.25f * i), b = __int2half_rn(i);
  out[i] = __half2float(__hfma(a, b, __float2half(1.0f)));
  __half2 pair = __hadd2(__floats2half2_rn(i, 2.0f * i), __half2half2(a));
  out[32 + i] = __low2float(pair) + __high2float(pair);
  __nv_bfloat16 c = __float2bfloat16(1.0f + i);
  out[64 + i] = __bfloat162float(__hmul(c, __float2bfloat16(2.0f)));
  out[96 + i] = __half2float(__float2half(i / 3.0f));
  out[128 + i] = __hgt(a, b) ? 1 : 0;
}

int main() {
  float *dev, got[160];
  if (cudaMalloc(&dev, sizeof got) != cudaSuccess)
    return 1;
  compute<<<1, 32>>>(dev);
  cudaError_t e = cudaMemcpy(got, dev, sizeof got, cudaMemcpyDeviceToHost);
  if (e != cudaSuccess) {
    printf("%s\n", cudaGetErrorString(e));
    return 1;
  }
  for (int i = 0; i < 32; ++i) {
    // All are exact except the third of i, which both sides round to nearest.
    float want[5] = {0.25f * i * i + 1, 3.5f * i, 2.0f * (1 + i),
                     __half2float(__float2half(i / 3.0f)), 0};
    for (int k = 0; k < 5; ++k) {
      if (got[32 * k + i] != want[k]) {
        printf("%d of %d: %g, not %g\n", k, i, got[32 * k + i], want[k]);
        return 1;
      }
    }
  }
  printf("ok\n");
}
