// cuBLASLt: products with what neural networks do to them next (bias, ReLU,
// GELU) in the same kernel, compared with the host.
// nvcc: -std=c++17 -lcublasLt
#include "checked.hpp"

#include <cublasLt.h>
#include <cuda_fp16.h>

namespace {

constexpr int m = 96, n = 80, k = 64;

template <class T>
constexpr cudaDataType type_of = sizeof(T) == 4 ? CUDA_R_32F : CUDA_R_16F;

double after(cublasLtEpilogue_t what, double x, double bias) {
  if (what == CUBLASLT_EPILOGUE_DEFAULT)
    return x;
  x += bias;
  if (what == CUBLASLT_EPILOGUE_RELU_BIAS)
    return std::max(x, 0.0);
  if (what == CUBLASLT_EPILOGUE_GELU_BIAS)
    return 0.5 * x *
           (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  return x;
}

struct product {
  cublasLtMatmulDesc_t how;
  cublasLtMatrixLayout_t a, b, c;
  product(cudaDataType type, cublasLtEpilogue_t epilogue, const void* bias) {
    LIBRARY(cublasLtMatmulDescCreate(&how, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    if (epilogue != CUBLASLT_EPILOGUE_DEFAULT)
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    LIBRARY(cublasLtMatrixLayoutCreate(&a, type, m, k, m));
    LIBRARY(cublasLtMatrixLayoutCreate(&b, type, k, n, k));
    LIBRARY(cublasLtMatrixLayoutCreate(&c, type, m, n, m));
  }
  product(const product&) = delete;
  product& operator=(const product&) = delete;
  ~product() {
    for (auto x : {a, b, c})
      cublasLtMatrixLayoutDestroy(x);
    cublasLtMatmulDescDestroy(how);
  }

private:
  template <class T>
  void set(cublasLtMatmulDescAttributes_t what, T value) {
    LIBRARY(cublasLtMatmulDescSetAttribute(how, what, &value, sizeof value));
  }
};

template <class T>
void multiply(cublasLtHandle_t lt, const char* name, cublasLtEpilogue_t what,
              double tolerance) {
  auto a = numbers<T>(m * k, 51), b = numbers<T>(k * n, 52);
  auto bias = numbers<T>(m, 53);
  auto da = device_array<T>{a};
  auto db = device_array<T>{b};
  auto dc = device_array<T>{m * n};
  auto dbias = device_array<T>{bias};
  auto work = device_array<char>{1 << 20};
  auto x = product{type_of<T>, what, dbias.get()};
  cublasLtMatmulPreference_t constraint;
  LIBRARY(cublasLtMatmulPreferenceCreate(&constraint));
  auto room = work.bytes();
  LIBRARY(cublasLtMatmulPreferenceSetAttribute(
      constraint, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room,
      sizeof room));
  cublasLtMatmulHeuristicResult_t best[8];
  auto found = 0;
  LIBRARY(cublasLtMatmulAlgoGetHeuristic(lt, x.how, x.a, x.b, x.c, x.c,
                                         constraint, 8, best, &found));
  LIBRARY(cublasLtMatmulPreferenceDestroy(constraint));
  EXPECT(found > 0);
  auto expected = std::vector<double>(m * n);
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < m; ++i) {
      auto sum = 0.0;
      for (int p = 0; p < k; ++p)
        sum += double(float(a[i + p * m])) * double(float(b[p + j * k]));
      expected[i + j * m] = after(what, sum, float(bias[i]));
    }
  auto one = 1.0f, zero = 0.0f;
  for (int i = 0; i < found; ++i) {
    CHECK(cudaMemset(dc.get(), 0, dc.bytes()));
    LIBRARY(cublasLtMatmul(lt, x.how, &one, da.get(), x.a, db.get(), x.b, &zero,
                           dc.get(), x.c, dc.get(), x.c, &best[i].algo,
                           work.get(), work.bytes(), nullptr));
    auto got = std::vector<double>{};
    for (auto y : dc.host())
      got.push_back(float(y));
    std::printf("way %d of %d, ", i + 1, found);
    expect_near(name, got, expected, tolerance);
  }
}

template <class T>
void all(cublasLtHandle_t lt, double tolerance) {
  multiply<T>(lt, "plain", CUBLASLT_EPILOGUE_DEFAULT, tolerance);
  multiply<T>(lt, "bias", CUBLASLT_EPILOGUE_BIAS, tolerance);
  multiply<T>(lt, "bias and ReLU", CUBLASLT_EPILOGUE_RELU_BIAS, tolerance);
  multiply<T>(lt, "bias and GELU", CUBLASLT_EPILOGUE_GELU_BIAS, tolerance);
}

} // namespace

int main() {
  cublasLtHandle_t lt;
  LIBRARY(cublasLtCreate(&lt));
  std::puts("float");
  all<float>(lt, 1e-5);
  std::puts("half");
  all<__half>(lt, 2e-3);
  LIBRARY(cublasLtDestroy(lt));
  std::puts("PASSED");
}
