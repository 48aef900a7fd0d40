// cuSOLVER: systems of equations by LU, Cholesky and QR, eigenvalues and
// singular values, judged by putting the factors together again.
// nvcc: -std=c++17 -lcusolver
#include "checked.hpp"

#include <cusolverDn.h>

namespace {

/// Square, column by column.
class matrix {
public:
  explicit matrix(int n) : n_{n}, values_(std::size_t(n) * n) {}
  matrix(int n, std::vector<double> values)
      : n_{n}, values_{std::move(values)} {}
  double& at(int row, int column) { return values_[row + column * n_]; }
  double at(int row, int column) const { return values_[row + column * n_]; }
  int size() const { return n_; }
  const std::vector<double>& values() const { return values_; }

  matrix turned() const {
    auto out = matrix{n_};
    for (int i = 0; i < n_; ++i)
      for (int j = 0; j < n_; ++j)
        out.at(i, j) = at(j, i);
    return out;
  }

  matrix operator*(const matrix& x) const {
    auto out = matrix{n_};
    for (int i = 0; i < n_; ++i)
      for (int j = 0; j < n_; ++j)
        for (int k = 0; k < n_; ++k)
          out.at(i, j) += at(i, k) * x.at(k, j);
    return out;
  }

private:
  int n_;
  std::vector<double> values_;
};

matrix diagonal(const std::vector<double>& x) {
  auto out = matrix{int(x.size())};
  for (int i = 0; i < out.size(); ++i)
    out.at(i, i) = x[i];
  return out;
}

constexpr int n = 72, right_sides = 3;

struct solver {
  cusolverDnHandle_t handle;
  device_array<int> info{1};
  solver() { LIBRARY(cusolverDnCreate(&handle)); }
  solver(const solver&) = delete;
  solver& operator=(const solver&) = delete;
  ~solver() { cusolverDnDestroy(handle); }
  void expect_done() { EXPECT(info.host().front() == 0); }
};

/// a * x, for the right sides in x.
std::vector<double> apply(const matrix& a, const std::vector<double>& x) {
  auto out = std::vector<double>(x.size());
  for (int c = 0; c < right_sides; ++c)
    for (int i = 0; i < n; ++i)
      for (int k = 0; k < n; ++k)
        out[i + c * n] += a.at(i, k) * x[k + c * n];
  return out;
}

void lu(solver& s, const matrix& a, const std::vector<double>& b) {
  auto da = device_array<double>{a.values()};
  auto db = device_array<double>{b};
  auto pivots = device_array<int>{n};
  auto size = 0;
  LIBRARY(cusolverDnDgetrf_bufferSize(s.handle, n, n, da.get(), n, &size));
  auto work = device_array<double>{std::size_t(size)};
  LIBRARY(cusolverDnDgetrf(s.handle, n, n, da.get(), n, work.get(),
                           pivots.get(), s.info.get()));
  s.expect_done();
  LIBRARY(cusolverDnDgetrs(s.handle, CUBLAS_OP_N, n, right_sides, da.get(), n,
                           pivots.get(), db.get(), n, s.info.get()));
  expect_near("LU", apply(a, db.host()), b, 1e-10);
}

void cholesky(solver& s, const matrix& positive, const std::vector<double>& b) {
  auto da = device_array<double>{positive.values()};
  auto db = device_array<double>{b};
  auto size = 0;
  constexpr auto lower = CUBLAS_FILL_MODE_LOWER;
  LIBRARY(cusolverDnDpotrf_bufferSize(s.handle, lower, n, da.get(), n, &size));
  auto work = device_array<double>{std::size_t(size)};
  LIBRARY(cusolverDnDpotrf(s.handle, lower, n, da.get(), n, work.get(), size,
                           s.info.get()));
  s.expect_done();
  LIBRARY(cusolverDnDpotrs(s.handle, lower, n, right_sides, da.get(), n,
                           db.get(), n, s.info.get()));
  expect_near("Cholesky", apply(positive, db.host()), b, 1e-10);
}

void qr(solver& s, const matrix& a) {
  auto da = device_array<double>{a.values()};
  auto tau = device_array<double>{n};
  auto size = 0, more = 0;
  LIBRARY(cusolverDnDgeqrf_bufferSize(s.handle, n, n, da.get(), n, &size));
  LIBRARY(cusolverDnDorgqr_bufferSize(s.handle, n, n, n, da.get(), n, tau.get(),
                                      &more));
  size = std::max(size, more);
  auto work = device_array<double>{std::size_t(size)};
  LIBRARY(cusolverDnDgeqrf(s.handle, n, n, da.get(), n, tau.get(), work.get(),
                           size, s.info.get()));
  s.expect_done();
  auto r = matrix{n, da.host()};
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < i; ++j)
      r.at(i, j) = 0;
  LIBRARY(cusolverDnDorgqr(s.handle, n, n, n, da.get(), n, tau.get(),
                           work.get(), size, s.info.get()));
  s.expect_done();
  auto q = matrix{n, da.host()};
  expect_near("QR", (q * r).values(), a.values(), 1e-12);
  expect_near("  Q", (q.turned() * q).values(),
              diagonal(std::vector<double>(n, 1)).values(), 1e-12);
}

void eigenvalues(solver& s, const matrix& symmetric) {
  auto da = device_array<double>{symmetric.values()};
  auto dw = device_array<double>{n};
  auto size = 0;
  constexpr auto vectors = CUSOLVER_EIG_MODE_VECTOR;
  constexpr auto lower = CUBLAS_FILL_MODE_LOWER;
  LIBRARY(cusolverDnDsyevd_bufferSize(s.handle, vectors, lower, n, da.get(), n,
                                      dw.get(), &size));
  auto work = device_array<double>{std::size_t(size)};
  LIBRARY(cusolverDnDsyevd(s.handle, vectors, lower, n, da.get(), n, dw.get(),
                           work.get(), size, s.info.get()));
  s.expect_done();
  auto v = matrix{n, da.host()};
  expect_near("eigenvalues", (v * diagonal(dw.host()) * v.turned()).values(),
              symmetric.values(), 1e-11);
}

void singular_values(solver& s, const matrix& a) {
  auto da = device_array<double>{a.values()};
  auto dw = device_array<double>{n};
  auto du = device_array<double>{a.values().size()};
  auto dv = device_array<double>{a.values().size()};
  auto size = 0;
  LIBRARY(cusolverDnDgesvd_bufferSize(s.handle, n, n, &size));
  auto work = device_array<double>{std::size_t(size)};
  LIBRARY(cusolverDnDgesvd(s.handle, 'A', 'A', n, n, da.get(), n, dw.get(),
                           du.get(), n, dv.get(), n, work.get(), size, nullptr,
                           s.info.get()));
  s.expect_done();
  auto u = matrix{n, du.host()}, v = matrix{n, dv.host()};
  expect_near("singular values", (u * diagonal(dw.host()) * v).values(),
              a.values(), 1e-11);
}

} // namespace

int main() {
  auto s = solver{};
  auto a = matrix{n, numbers<double>(n * n, 31)};
  auto b = numbers<double>(n * right_sides, 32);
  auto positive = a * a.turned();
  for (int i = 0; i < n; ++i)
    positive.at(i, i) += n;
  lu(s, a, b);
  cholesky(s, positive, b);
  qr(s, a);
  eigenvalues(s, positive);
  singular_values(s, a);
  std::puts("PASSED");
}
