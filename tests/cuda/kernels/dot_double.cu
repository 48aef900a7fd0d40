// A dot product in double precision, its last additions by atomicAdd(double).
#include <cmath>
#include <cstdio>
#include <vector>

__global__ void dot(const double* __restrict__ x, const double* __restrict__ y,
                    double* result, int n) {
  __shared__ double cache[128];
  double sum = 0.0;
  for (int i = threadIdx.x + blockIdx.x * blockDim.x; i < n;
       i += blockDim.x * gridDim.x)
    sum = fma(x[i], y[i], sum);
  cache[threadIdx.x] = sum;
  for (int half = blockDim.x / 2; half != 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half)
      cache[threadIdx.x] += cache[threadIdx.x + half];
  }
  if (threadIdx.x == 0)
    atomicAdd(result, cache[0]);
}

int main() {
  const int n = 200000;
  std::vector<double> x(n), y(n);
  double expected = 0, magnitude = 0;
  for (int i = 0; i < n; ++i) {
    x[i] = 1.0 / (i + 1);
    y[i] = (i % 3 - 1) * 1e-3 * i;
    expected += x[i] * y[i];
    magnitude += std::fabs(x[i] * y[i]);
  }
  double *dx, *dy, *dr, r = -1;
  cudaMalloc(&dx, n * sizeof(double));
  cudaMalloc(&dy, n * sizeof(double));
  cudaMalloc(&dr, sizeof(double));
  cudaMemcpy(dx, x.data(), n * sizeof(double), cudaMemcpyHostToDevice);
  cudaMemcpy(dy, y.data(), n * sizeof(double), cudaMemcpyHostToDevice);
  cudaMemset(dr, 0, sizeof(double));
  dot<<<40, 128>>>(dx, dy, dr, n);
  cudaError_t status = cudaMemcpy(&r, dr, sizeof r, cudaMemcpyDeviceToHost);
  cudaFree(dx);
  cudaFree(dy);
  cudaFree(dr);
  if (status != cudaSuccess || !(std::fabs(r - expected) < 1e-12 * magnitude)) {
    std::printf("%s: %.17g instead of %.17g\n", cudaGetErrorString(status), r,
                expected);
    return 1;
  }
  std::printf("ok\n");
}
