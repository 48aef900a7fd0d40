// Functions of the device's math library against the host's.
#include <cmath>
#include <cstdio>

constexpr int kinds = 16;

template <class T>
__host__ __device__ T function(int kind, T x) {
  switch (kind) {
  case 0:
    return sin(x);
  case 1:
    return cos(x);
  case 2:
    return exp(x / T(8));
  case 3:
    return log(x + T(40));
  case 4:
    return pow(fabs(x) + T(0.5), T(1.5));
  case 5:
    return sqrt(x + T(40));
  case 6:
    return T(1) / (x + T(40.5));
  case 7:
    return tanh(x);
  case 8:
    return atan2(x, T(3));
  case 9:
    return fmod(x, T(2.75));
  case 10:
    return floor(x) + ceil(x * T(0.3)) + trunc(x * T(0.7));
  case 11:
    return rint(x) + round(x * T(0.3));
  case 12:
    return erf(x * T(0.1));
  case 13:
    return cbrt(x);
  case 14:
    return fmax(fmin(x, T(3)), T(-3));
  default:
    return T(static_cast<long long>(x * T(1000)));
  }
}

template <class T>
__global__ void compute(T* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    for (int kind = 0; kind < kinds; ++kind)
      out[kind * n + i] = function(kind, T(i - n / 2) * T(0.1171875));
}

// Differences of a few units in the last place are within the documented
// errors of the CUDA math library.
template <class T>
int count_wrong(const char* type, T tolerance) {
  constexpr int n = 600;
  static T got[kinds * n];
  T* dev;
  if (cudaMalloc(&dev, sizeof got) != cudaSuccess)
    return 1;
  compute<<<(n + 63) / 64, 64>>>(dev, n);
  cudaError_t e = cudaMemcpy(got, dev, sizeof got, cudaMemcpyDeviceToHost);
  cudaFree(dev);
  if (e != cudaSuccess) {
    printf("%s\n", cudaGetErrorString(e));
    return 1;
  }
  int wrong = 0;
  for (int kind = 0; kind < kinds; ++kind) {
    for (int i = 0; i < n; ++i) {
      T x = T(i - n / 2) * T(0.1171875);
      T want = function(kind, x);
      T error = std::fabs(got[kind * n + i] - want);
      bool right = error <= tolerance * std::fmax(T(1), std::fabs(want));
      if (!right && ++wrong < 20)
        printf("%s, kind %d of %g: %.9g, not %.9g\n", type, kind,
               static_cast<double>(x), static_cast<double>(got[kind * n + i]),
               static_cast<double>(want));
    }
  }
  return wrong;
}

int main() {
  int wrong =
      count_wrong<float>("float", 1e-6f) + count_wrong<double>("double", 2e-15);
  if (wrong)
    return 1;
  printf("ok\n");
}
