// cuSPARSE: sparse matrices times vectors, dense and sparse matrices, compared
// with the host's sums.
// nvcc: -std=c++17 -lcusparse
#include "checked.hpp"

#include <cusparse.h>

namespace {

constexpr int rows = 300, columns = 200, wide = 16;

/// Compressed rows.
struct sparse {
  int rows, columns;
  std::vector<int> begins{0}, at;
  std::vector<float> values;
};

sparse of_dense(const std::vector<float>& x, int rows, int columns) {
  auto out = sparse{rows, columns};
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j)
      if (x[i * columns + j] != 0) {
        out.at.push_back(j);
        out.values.push_back(x[i * columns + j]);
      }
    out.begins.push_back(int(out.at.size()));
  }
  return out;
}

std::vector<float> mostly_zero(std::size_t count, unsigned seed) {
  auto out = numbers<float>(count, seed);
  for (auto& x : out)
    if (std::abs(x) < 0.9f)
      x = 0;
  return out;
}

struct on_device {
  device_array<int> begins, at;
  device_array<float> values;
  cusparseSpMatDescr_t what;
  explicit on_device(const sparse& x)
      : begins{x.begins}, at{x.at}, values{x.values} {
    LIBRARY(cusparseCreateCsr(&what, x.rows, x.columns, x.values.size(),
                              begins.get(), at.get(), values.get(),
                              CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                              CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
  }
  on_device(const on_device&) = delete;
  on_device& operator=(const on_device&) = delete;
  ~on_device() { cusparseDestroySpMat(what); }
};

/// Row by row.
std::vector<double> product(const std::vector<float>& a,
                            const std::vector<float>& b, int m, int k, int n) {
  auto out = std::vector<double>(std::size_t(m) * n);
  for (int i = 0; i < m; ++i)
    for (int p = 0; p < k; ++p)
      for (int j = 0; j < n; ++j)
        out[i * n + j] += double(a[i * k + p]) * double(b[p * n + j]);
  return out;
}

constexpr auto plain = CUSPARSE_OPERATION_NON_TRANSPOSE;
constexpr auto one = 1.0f, zero = 0.0f;

void times_vector(cusparseHandle_t handle, const std::vector<float>& dense) {
  auto a = on_device{of_dense(dense, rows, columns)};
  auto x = numbers<float>(columns, 42);
  auto dx = device_array<float>{x};
  auto dy = device_array<float>{rows};
  cusparseDnVecDescr_t vx, vy;
  LIBRARY(cusparseCreateDnVec(&vx, columns, dx.get(), CUDA_R_32F));
  LIBRARY(cusparseCreateDnVec(&vy, rows, dy.get(), CUDA_R_32F));
  for (auto how : {CUSPARSE_SPMV_CSR_ALG1, CUSPARSE_SPMV_CSR_ALG2}) {
    auto size = std::size_t{0};
    LIBRARY(cusparseSpMV_bufferSize(handle, plain, &one, a.what, vx, &zero, vy,
                                    CUDA_R_32F, how, &size));
    auto work = device_array<char>{size};
    LIBRARY(cusparseSpMV(handle, plain, &one, a.what, vx, &zero, vy, CUDA_R_32F,
                         how, work.get()));
    expect_near("times a vector", dy.host(),
                product(dense, x, rows, columns, 1), 1e-5);
  }
  LIBRARY(cusparseDestroyDnVec(vx));
  LIBRARY(cusparseDestroyDnVec(vy));
}

void times_dense(cusparseHandle_t handle, const std::vector<float>& dense) {
  auto a = on_device{of_dense(dense, rows, columns)};
  auto b = numbers<float>(columns * wide, 43);
  auto db = device_array<float>{b};
  auto dc = device_array<float>{rows * wide};
  cusparseDnMatDescr_t mb, mc;
  LIBRARY(cusparseCreateDnMat(&mb, columns, wide, wide, db.get(), CUDA_R_32F,
                              CUSPARSE_ORDER_ROW));
  LIBRARY(cusparseCreateDnMat(&mc, rows, wide, wide, dc.get(), CUDA_R_32F,
                              CUSPARSE_ORDER_ROW));
  auto size = std::size_t{0};
  constexpr auto how = CUSPARSE_SPMM_CSR_ALG2;
  LIBRARY(cusparseSpMM_bufferSize(handle, plain, plain, &one, a.what, mb, &zero,
                                  mc, CUDA_R_32F, how, &size));
  auto work = device_array<char>{size};
  LIBRARY(cusparseSpMM(handle, plain, plain, &one, a.what, mb, &zero, mc,
                       CUDA_R_32F, how, work.get()));
  expect_near("times a dense matrix", dc.host(),
              product(dense, b, rows, columns, wide), 1e-5);
  LIBRARY(cusparseDestroyDnMat(mb));
  LIBRARY(cusparseDestroyDnMat(mc));
}

/// As dense numbers, row by row.
std::vector<float> spread(const sparse& x) {
  auto out = std::vector<float>(std::size_t(x.rows) * x.columns);
  for (int i = 0; i < x.rows; ++i)
    for (int k = x.begins[i]; k < x.begins[i + 1]; ++k)
      out[i * x.columns + x.at[k]] += x.values[k];
  return out;
}

void times_sparse(cusparseHandle_t handle, const std::vector<float>& dense) {
  auto second = mostly_zero(columns * rows, 44);
  auto a = on_device{of_dense(dense, rows, columns)};
  auto b = on_device{of_dense(second, columns, rows)};
  auto begins = device_array<int>{rows + 1};
  cusparseSpMatDescr_t c;
  LIBRARY(cusparseCreateCsr(&c, rows, rows, 0, begins.get(), nullptr, nullptr,
                            CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                            CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
  cusparseSpGEMMDescr_t plan;
  LIBRARY(cusparseSpGEMM_createDescr(&plan));
  constexpr auto how = CUSPARSE_SPGEMM_DEFAULT;
  auto size = std::size_t{0}, more = std::size_t{0};
  LIBRARY(cusparseSpGEMM_workEstimation(handle, plain, plain, &one, a.what,
                                        b.what, &zero, c, CUDA_R_32F, how, plan,
                                        &size, nullptr));
  auto work = device_array<char>{size};
  LIBRARY(cusparseSpGEMM_workEstimation(handle, plain, plain, &one, a.what,
                                        b.what, &zero, c, CUDA_R_32F, how, plan,
                                        &size, work.get()));
  LIBRARY(cusparseSpGEMM_compute(handle, plain, plain, &one, a.what, b.what,
                                 &zero, c, CUDA_R_32F, how, plan, &more,
                                 nullptr));
  auto room = device_array<char>{more};
  LIBRARY(cusparseSpGEMM_compute(handle, plain, plain, &one, a.what, b.what,
                                 &zero, c, CUDA_R_32F, how, plan, &more,
                                 room.get()));
  std::int64_t m, n, count;
  LIBRARY(cusparseSpMatGetSize(c, &m, &n, &count));
  auto at = device_array<int>{std::size_t(count)};
  auto values = device_array<float>{std::size_t(count)};
  LIBRARY(cusparseCsrSetPointers(c, begins.get(), at.get(), values.get()));
  LIBRARY(cusparseSpGEMM_copy(handle, plain, plain, &one, a.what, b.what, &zero,
                              c, CUDA_R_32F, how, plan));
  expect_near("times a sparse matrix",
              spread({rows, rows, begins.host(), at.host(), values.host()}),
              product(dense, second, rows, columns, rows), 1e-5);
  LIBRARY(cusparseSpGEMM_destroyDescr(plan));
  LIBRARY(cusparseDestroySpMat(c));
}

} // namespace

int main() {
  cusparseHandle_t handle;
  LIBRARY(cusparseCreate(&handle));
  auto dense = mostly_zero(rows * columns, 41);
  times_vector(handle, dense);
  times_dense(handle, dense);
  times_sparse(handle, dense);
  LIBRARY(cusparseDestroy(handle));
  std::puts("PASSED");
}
