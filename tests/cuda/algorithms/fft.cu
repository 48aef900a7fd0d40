// Complex numbers of three kinds: a Fourier transform in shared memory with
// cuComplex, one over global memory with cuda::std::complex, and double.
// nvcc: -arch=compute_90 -std=c++17
#include <cmath>
#include <complex>
#include <cstdio>
#include <cuComplex.h>
#include <cuda/std/complex>
#include <vector>

// Each block transforms 512 points in place, after a bit reversal.
__global__ void in_shared_memory(const cuFloatComplex* in, cuFloatComplex* out,
                                 float sign) {
  __shared__ cuFloatComplex x[512];
  unsigned t = threadIdx.x;
  for (unsigned i = t; i < 512; i += blockDim.x)
    x[__brev(i) >> 23] = in[blockIdx.x * 512 + i];
  for (unsigned half = 1; half < 512; half *= 2) {
    __syncthreads();
    unsigned k = t % half, a = t / half * 2 * half + k, b = a + half;
    float s, c;
    sincospif(sign * k / half, &s, &c);
    cuFloatComplex odd = cuCmulf(make_cuFloatComplex(c, s), x[b]);
    x[b] = cuCsubf(x[a], odd);
    x[a] = cuCaddf(x[a], odd);
  }
  __syncthreads();
  for (unsigned i = t; i < 512; i += blockDim.x)
    out[blockIdx.x * 512 + i] = x[i];
}

// Does one step of Stockham's algorithm over all points.
template <class T>
__global__ void step(const cuda::std::complex<T>* in,
                     cuda::std::complex<T>* out, unsigned n, unsigned half) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned k = i % half;
  T angle = -T(3.14159265358979323846) * T(k) / T(half);
  auto even = in[i], odd = in[i + n / 2] * cuda::std::polar(T(1), angle);
  unsigned to = i / half * 2 * half + k;
  out[to] = even + odd;
  out[to + half] = even - odd;
}

__global__ void functions(const double2* in, double2* out) {
  using complex = cuda::std::complex<double>;
  complex z{in[threadIdx.x].x, in[threadIdx.x].y};
  complex r[6] = {exp(z), log(z),      sqrt(z),
                  sin(z), pow(z, 2.5), complex(1, 2) / z};
  for (int k = 0; k < 6; ++k)
    out[threadIdx.x * 6 + k] = {r[k].real(), r[k].imag()};
}

template <class T>
static std::vector<std::complex<T>> read(const void* from, std::size_t n) {
  std::vector<std::complex<T>> out(n);
  cudaError_t e =
      cudaMemcpy(out.data(), from, n * sizeof out[0], cudaMemcpyDeviceToHost);
  if (e != cudaSuccess)
    std::printf("%s\n", cudaGetErrorString(e));
  return out;
}

template <class T>
static bool whole_device(double tolerance) {
  constexpr unsigned n = 1 << 14;
  std::vector<std::complex<T>> in(n);
  // Two waves and a constant give three peaks.
  for (unsigned i = 0; i < n; ++i)
    in[i] = {T(1 + std::cos(2 * M_PI * (i * 5ull % n) / n) +
               0.25 * std::cos(2 * M_PI * (i * 777ull % n) / n)),
             0};
  cuda::std::complex<T>*a, *b;
  cudaMalloc(&a, n * sizeof *a);
  cudaMalloc(&b, n * sizeof *b);
  cudaMemcpy(a, in.data(), n * sizeof *a, cudaMemcpyHostToDevice);
  for (unsigned half = 1; half < n; half *= 2) {
    step<<<n / 512, 256>>>(a, b, n, half);
    std::swap(a, b);
  }
  auto got = read<T>(a, n);
  cudaFree(a);
  cudaFree(b);
  for (unsigned i = 0; i < n; ++i) {
    double expected = i == 0                     ? n
                      : i == 5 || i == n - 5     ? n / 2
                      : i == 777 || i == n - 777 ? n / 8
                                                 : 0;
    if (std::abs(std::complex<double>(got[i]) - expected) > tolerance * n) {
      std::printf("point %u is %g%+gi, not %g\n", i, double(got[i].real()),
                  double(got[i].imag()), expected);
      return false;
    }
  }
  return true;
}

int main() {
  constexpr int n = 2048;
  std::vector<std::complex<float>> in(n);
  for (int i = 0; i < n; ++i)
    in[i] = {float(i * 37 % 101) / 101, float(i * 53 % 89) / 89};
  cuFloatComplex *a, *b;
  if (cudaMalloc(&a, n * sizeof *a) || cudaMalloc(&b, n * sizeof *b))
    return 1;
  cudaMemcpy(a, in.data(), n * sizeof *a, cudaMemcpyHostToDevice);
  in_shared_memory<<<n / 512, 256>>>(a, b, -1);
  auto spectrum = read<float>(b, n);
  for (int block = 0; block < n / 512; ++block)
    for (int k = 0; k < 512; k += 37) {
      std::complex<double> sum = 0;
      for (int i = 0; i < 512; ++i)
        sum += std::complex<double>(in[block * 512 + i]) *
               std::polar(1.0, -2 * M_PI * (i * k % 512) / 512);
      if (std::abs(sum - std::complex<double>(spectrum[block * 512 + k])) >
          1e-3) {
        std::printf("block %d, frequency %d\n", block, k);
        return 1;
      }
    }
  in_shared_memory<<<n / 512, 256>>>(b, a, 1);
  auto back = read<float>(a, n);
  for (int i = 0; i < n; ++i)
    if (std::abs(back[i] / 512.f - in[i]) > 1e-5f) {
      std::printf("%d did not come back\n", i);
      return 1;
    }
  if (!whole_device<float>(1e-4) || !whole_device<double>(1e-10))
    return 1;

  std::complex<double> z[32];
  for (int i = 0; i < 32; ++i)
    z[i] = {0.25 * i - 3.9, 1.7 - 0.1 * i};
  double2* d;
  cudaMalloc(&d, sizeof z * 7);
  cudaMemcpy(d, z, sizeof z, cudaMemcpyHostToDevice);
  functions<<<1, 32>>>(d, d + 32);
  auto got = read<double>(d + 32, 32 * 6);
  for (int i = 0; i < 32; ++i) {
    std::complex<double> expected[] = {
        std::exp(z[i]), std::log(z[i]),      std::sqrt(z[i]),
        std::sin(z[i]), std::pow(z[i], 2.5), std::complex<double>(1, 2) / z[i]};
    for (int k = 0; k < 6; ++k)
      if (std::abs(got[i * 6 + k] - expected[k]) >
          1e-12 * (1 + std::abs(expected[k]))) {
        std::printf("function %d of number %d\n", k, i);
        return 1;
      }
  }
  std::printf("ok\n");
}
