// Kernels from templates, with functors and lambdas as parameters.
#include <cstdio>
#include <vector>

template <class T>
struct affine {
  T scale, offset;
  __device__ T operator()(T x) const { return scale * x + offset; }
};

template <class T, int PerThread, class F>
__global__ void transform(T* data, int n, F f) {
  int first = (blockIdx.x * blockDim.x + threadIdx.x) * PerThread;
#pragma unroll
  for (int k = 0; k < PerThread; ++k)
    if (first + k < n)
      data[first + k] = f(data[first + k]);
}

struct absolute {
  template <class T>
  __device__ T operator()(T x) const {
    return x < T(0) ? -x : x;
  }
};

template <class T, int PerThread, class F, class G>
bool try_it(F f, G expected) {
  const int n = 1013;
  std::vector<T> data(n), in(n);
  for (int i = 0; i < n; ++i)
    in[i] = T(i % 100) - T(50);
  T* dev;
  if (cudaMalloc(&dev, n * sizeof(T)) != cudaSuccess)
    return false;
  cudaMemcpy(dev, in.data(), n * sizeof(T), cudaMemcpyHostToDevice);
  int threads = (n + PerThread - 1) / PerThread;
  transform<T, PerThread><<<(threads + 63) / 64, 64>>>(dev, n, f);
  if (cudaMemcpy(data.data(), dev, n * sizeof(T), cudaMemcpyDeviceToHost) !=
      cudaSuccess)
    return false;
  cudaFree(dev);
  for (int i = 0; i < n; ++i)
    if (data[i] != expected(in[i]))
      return false;
  return true;
}

int main() {
  bool right =
      try_it<float, 1>(affine<float>{2, 1},
                       [](float x) { return 2 * x + 1; }) &&
      try_it<double, 4>(affine<double>{0.5, -3},
                        [](double x) { return 0.5 * x - 3; }) &&
      try_it<long long, 3>(affine<long long>{1ll << 33, 5},
                           [](long long x) { return x * (1ll << 33) + 5; }) &&
      try_it<short, 2>(absolute{}, [](short x) {
        return static_cast<short>(x < 0 ? -x : x);
      });
  printf(right ? "ok\n" : "wrong\n");
  return right ? 0 : 1;
}
