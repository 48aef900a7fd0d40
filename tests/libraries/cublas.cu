// cuBLAS: products of all types that it has, batched and strided, vectors,
// triangles and complex numbers, compared with the host's sums.
// nvcc: -std=c++17 -lcublas
#include "checked.hpp"

#include <complex>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace {

struct shape {
  int m, n, k;
};

template <class T>
double wide(T x) {
  return static_cast<float>(x);
}
inline double wide(double x) {
  return x;
}

/// Column by column, as cuBLAS has it.
template <class T>
std::vector<double> product(const std::vector<T>& a, const std::vector<T>& b,
                            shape s, bool a_turned = false) {
  auto out = std::vector<double>(std::size_t(s.m) * s.n);
  for (int j = 0; j < s.n; ++j)
    for (int i = 0; i < s.m; ++i) {
      auto sum = 0.0;
      for (int p = 0; p < s.k; ++p)
        sum += wide(a[a_turned ? p + std::size_t(i) * s.k
                               : i + std::size_t(p) * s.m]) *
               wide(b[p + std::size_t(j) * s.k]);
      out[i + std::size_t(j) * s.m] = sum;
    }
  return out;
}

/// cublasGemmEx with inputs of T and outputs of U.
template <class T, class U, class Scale>
void general(cublasHandle_t blas, const char* name, shape s, cudaDataType in,
             cudaDataType out, cublasComputeType_t compute, double tolerance) {
  auto a = numbers<T>(std::size_t(s.m) * s.k, 1);
  auto b = numbers<T>(std::size_t(s.k) * s.n, 2);
  auto da = device_array<T>{a};
  auto db = device_array<T>{b};
  auto dc = device_array<U>{std::size_t(s.m) * s.n};
  auto one = Scale(1), zero = Scale(0);
  LIBRARY(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, s.m, s.n, s.k, &one,
                       da.get(), in, s.m, db.get(), in, s.k, &zero, dc.get(),
                       out, s.m, compute, CUBLAS_GEMM_DEFAULT));
  auto got = std::vector<double>{};
  for (auto x : dc.host())
    got.push_back(wide(x));
  expect_near(name, got, product(a, b, s), tolerance);
}

void small_integers(cublasHandle_t blas) {
  auto s = shape{64, 48, 32};
  auto a = std::vector<std::int8_t>(std::size_t(s.m) * s.k);
  auto b = std::vector<std::int8_t>(std::size_t(s.k) * s.n);
  for (std::size_t i = 0; i < a.size(); ++i)
    a[i] = std::int8_t(i * 37 % 201 - 100);
  for (std::size_t i = 0; i < b.size(); ++i)
    b[i] = std::int8_t(i * 53 % 199 - 99);
  auto da = device_array<std::int8_t>{a};
  auto db = device_array<std::int8_t>{b};
  auto dc = device_array<std::int32_t>{std::size_t(s.m) * s.n};
  auto one = 1, zero = 0;
  auto answer = cublasGemmEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, s.m, s.n, s.k,
                             &one, da.get(), CUDA_R_8I, s.k, db.get(),
                             CUDA_R_8I, s.k, &zero, dc.get(), CUDA_R_32I, s.m,
                             CUBLAS_COMPUTE_32I, CUBLAS_GEMM_DEFAULT);
  if (answer == CUBLAS_STATUS_NOT_SUPPORTED) {
    std::puts("int8: the library has none for this GPU");
    return;
  }
  LIBRARY(answer);
  expect_near("int8", dc.host(), product(a, b, s, true), 0);
}

void batched(cublasHandle_t blas) {
  auto s = shape{33, 17, 29};
  constexpr auto count = 6;
  auto a = numbers<float>(std::size_t(s.m) * s.k * count, 3);
  auto b = numbers<float>(std::size_t(s.k) * s.n * count, 4);
  auto expected = std::vector<double>{};
  for (int i = 0; i < count; ++i) {
    auto of = [](auto& x, std::size_t at, std::size_t length) {
      return std::vector<float>(x.begin() + at, x.begin() + at + length);
    };
    auto one = product(of(a, std::size_t(i) * s.m * s.k, s.m * s.k),
                       of(b, std::size_t(i) * s.k * s.n, s.k * s.n), s);
    expected.insert(expected.end(), one.begin(), one.end());
  }
  auto da = device_array<float>{a};
  auto db = device_array<float>{b};
  auto dc = device_array<float>{expected.size()};
  auto one = 1.0f, zero = 0.0f;
  LIBRARY(cublasSgemmStridedBatched(blas, CUBLAS_OP_N, CUBLAS_OP_N, s.m, s.n,
                                    s.k, &one, da.get(), s.m, s.m * s.k,
                                    db.get(), s.k, s.k * s.n, &zero, dc.get(),
                                    s.m, s.m * s.n, count));
  expect_near("strided", dc.host(), expected, 1e-5);
  auto pa = std::vector<const float*>{}, pb = pa;
  auto pc = std::vector<float*>{};
  for (int i = 0; i < count; ++i) {
    pa.push_back(da.get() + i * s.m * s.k);
    pb.push_back(db.get() + i * s.k * s.n);
    pc.push_back(dc.get() + i * s.m * s.n);
  }
  CHECK(cudaMemset(dc.get(), 0, dc.bytes()));
  auto dpa = device_array<const float*>{pa};
  auto dpb = device_array<const float*>{pb};
  auto dpc = device_array<float*>{pc};
  LIBRARY(cublasSgemmBatched(blas, CUBLAS_OP_N, CUBLAS_OP_N, s.m, s.n, s.k,
                             &one, dpa.get(), s.m, dpb.get(), s.k, &zero,
                             dpc.get(), s.m, count));
  expect_near("batched", dc.host(), expected, 1e-5);
}

void vectors(cublasHandle_t blas) {
  constexpr auto n = 5000;
  auto x = numbers<double>(n, 5), y = numbers<double>(n, 6);
  auto dx = device_array<double>{x};
  auto dy = device_array<double>{y};
  auto dot = 0.0, norm = 0.0, sum = 0.0;
  auto largest = 0;
  LIBRARY(cublasDdot(blas, n, dx.get(), 1, dy.get(), 1, &dot));
  LIBRARY(cublasDnrm2(blas, n, dx.get(), 1, &norm));
  LIBRARY(cublasDasum(blas, n, dx.get(), 1, &sum));
  LIBRARY(cublasIdamax(blas, n, dx.get(), 1, &largest));
  auto d = 0.0, q = 0.0, s = 0.0;
  auto at = 0;
  for (int i = 0; i < n; ++i) {
    d += x[i] * y[i];
    q += x[i] * x[i];
    s += std::abs(x[i]);
    if (std::abs(x[i]) > std::abs(x[at]))
      at = i;
  }
  expect_near("dot, norm, sum", std::vector<double>{dot, norm, sum},
              std::vector<double>{d, std::sqrt(q), s}, 1e-12);
  EXPECT(largest == at + 1);
  auto two = 2.0;
  LIBRARY(cublasDaxpy(blas, n, &two, dx.get(), 1, dy.get(), 1));
  for (int i = 0; i < n; ++i)
    y[i] += 2 * x[i];
  expect_near("axpy", dy.host(), y, 1e-15);
}

void matrix_and_vector(cublasHandle_t blas) {
  auto s = shape{150, 1, 70};
  auto a = numbers<float>(std::size_t(s.m) * s.k, 7);
  auto x = numbers<float>(s.k, 8);
  auto da = device_array<float>{a};
  auto dx = device_array<float>{x};
  auto dy = device_array<float>{std::size_t(s.m)};
  auto one = 1.0f, zero = 0.0f;
  LIBRARY(cublasSgemv(blas, CUBLAS_OP_N, s.m, s.k, &one, da.get(), s.m,
                      dx.get(), 1, &zero, dy.get(), 1));
  expect_near("gemv", dy.host(), product(a, x, s), 1e-5);
}

/// Solves with a triangle, and multiplies again.
void triangle(cublasHandle_t blas) {
  constexpr auto n = 48, columns = 9;
  auto a = numbers<double>(n * n, 9);
  for (int i = 0; i < n; ++i)
    a[i + i * n] = n;
  auto b = numbers<double>(n * columns, 10);
  auto da = device_array<double>{a};
  auto db = device_array<double>{b};
  auto dc = device_array<double>{b.size()};
  auto one = 1.0;
  LIBRARY(cublasDtrsm(blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER,
                      CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT, n, columns, &one,
                      da.get(), n, db.get(), n));
  LIBRARY(cublasDtrmm(blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER,
                      CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT, n, columns, &one,
                      da.get(), n, db.get(), n, dc.get(), n));
  expect_near("triangle", dc.host(), b, 1e-13);
}

void complex_numbers(cublasHandle_t blas) {
  constexpr auto n = 40;
  using number = std::complex<float>;
  auto parts = numbers<float>(4 * n * n, 11);
  auto a = std::vector<number>(n * n), b = a;
  for (int i = 0; i < n * n; ++i) {
    a[i] = {parts[4 * i], parts[4 * i + 1]};
    b[i] = {parts[4 * i + 2], parts[4 * i + 3]};
  }
  auto da = device_array<number>{a};
  auto db = device_array<number>{b};
  auto dc = device_array<number>{a.size()};
  auto one = cuComplex{1, 0}, zero = cuComplex{0, 0};
  auto as = [](number* x) { return reinterpret_cast<cuComplex*>(x); };
  LIBRARY(cublasCgemm(blas, CUBLAS_OP_C, CUBLAS_OP_N, n, n, n, &one,
                      as(da.get()), n, as(db.get()), n, &zero, as(dc.get()),
                      n));
  auto got = std::vector<float>{};
  auto expected = std::vector<double>{};
  auto c = dc.host();
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < n; ++i) {
      auto sum = std::complex<double>{};
      for (int k = 0; k < n; ++k)
        sum += std::conj(std::complex<double>{a[k + i * n]}) *
               std::complex<double>{b[k + j * n]};
      for (auto part : {0, 1}) {
        expected.push_back(part == 0 ? sum.real() : sum.imag());
        got.push_back(part == 0 ? c[i + j * n].real() : c[i + j * n].imag());
      }
    }
  expect_near("complex", got, expected, 1e-5);
}

} // namespace

int main() {
  cublasHandle_t blas;
  LIBRARY(cublasCreate(&blas));
  for (auto s : {shape{7, 5, 3}, shape{64, 64, 64}, shape{130, 67, 200},
                 shape{256, 256, 128}}) {
    std::printf("%d x %d x %d\n", s.m, s.n, s.k);
    general<float, float, float>(blas, "sgemm", s, CUDA_R_32F, CUDA_R_32F,
                                 CUBLAS_COMPUTE_32F, 1e-5);
    general<double, double, double>(blas, "dgemm", s, CUDA_R_64F, CUDA_R_64F,
                                    CUBLAS_COMPUTE_64F, 1e-13);
    general<__half, __half, float>(blas, "half", s, CUDA_R_16F, CUDA_R_16F,
                                   CUBLAS_COMPUTE_32F, 1e-3);
    general<__nv_bfloat16, __nv_bfloat16, float>(blas, "bfloat16", s,
                                                 CUDA_R_16BF, CUDA_R_16BF,
                                                 CUBLAS_COMPUTE_32F, 1e-2);
    general<float, float, float>(blas, "tf32", s, CUDA_R_32F, CUDA_R_32F,
                                 CUBLAS_COMPUTE_32F_FAST_TF32, 2e-3);
  }
  auto s = shape{128, 64, 96};
  general<__half, float, float>(blas, "half to float", s, CUDA_R_16F,
                                CUDA_R_32F, CUBLAS_COMPUTE_32F, 1e-5);
  general<__half, __half, __half>(blas, "hgemm", s, CUDA_R_16F, CUDA_R_16F,
                                  CUBLAS_COMPUTE_16F, 1e-2);
  small_integers(blas);
  batched(blas);
  vectors(blas);
  matrix_and_vector(blas);
  triangle(blas);
  complex_numbers(blas);
  LIBRARY(cublasDestroy(blas));
  std::puts("PASSED");
}
