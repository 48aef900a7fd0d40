// cuFFT: transforms of one to three dimensions, of sizes with large prime
// factors too, there and back again, compared with sums on the host.
// nvcc: -std=c++17 -lcufft
#include "checked.hpp"

#include <complex>
#include <cufft.h>
#include <string>

namespace {

using number = std::complex<double>;

/// Along one dimension of `shape` (the last one is contiguous), by definition.
void transform(std::vector<number>& x, const std::vector<int>& shape,
               std::size_t dimension) {
  auto n = std::size_t(shape[dimension]);
  auto stride = std::size_t{1};
  for (auto i = dimension + 1; i < shape.size(); ++i)
    stride *= std::size_t(shape[i]);
  auto roots = std::vector<number>{};
  for (std::size_t i = 0; i < n; ++i)
    roots.push_back(std::polar(1.0, -2 * M_PI * double(i) / double(n)));
  for (std::size_t at = 0; at < x.size(); ++at) {
    if (at / stride % n != 0)
      continue;
    auto out = std::vector<number>(n);
    for (std::size_t k = 0; k < n; ++k)
      for (std::size_t i = 0; i < n; ++i)
        out[k] += x[at + i * stride] * roots[i * k % n];
    for (std::size_t k = 0; k < n; ++k)
      x[at + k * stride] = out[k];
  }
}

template <class T>
std::vector<T> parts(const std::vector<std::complex<T>>& x) {
  auto out = std::vector<T>{};
  for (auto& y : x) {
    out.push_back(y.real());
    out.push_back(y.imag());
  }
  return out;
}

template <class T>
struct of;
template <>
struct of<float> {
  static constexpr auto complex_type = CUFFT_C2C;
  static auto run(cufftHandle plan, std::complex<float>* x, int direction) {
    auto p = reinterpret_cast<cufftComplex*>(x);
    return cufftExecC2C(plan, p, p, direction);
  }
};
template <>
struct of<double> {
  static constexpr auto complex_type = CUFFT_Z2Z;
  static auto run(cufftHandle plan, std::complex<double>* x, int direction) {
    auto p = reinterpret_cast<cufftDoubleComplex*>(x);
    return cufftExecZ2Z(plan, p, p, direction);
  }
};

template <class T>
void there_and_back(std::vector<int> shape, int batch, double tolerance) {
  auto count = std::size_t(batch);
  auto name = std::string{sizeof(T) == 4 ? "float" : "double"};
  for (auto n : shape) {
    count *= std::size_t(n);
    name += " " + std::to_string(n);
  }
  auto source = numbers<T>(2 * count, 21);
  auto x = std::vector<std::complex<T>>{};
  for (std::size_t i = 0; i < count; ++i)
    x.emplace_back(source[2 * i], source[2 * i + 1]);
  auto dx = device_array<std::complex<T>>{x};
  cufftHandle plan;
  LIBRARY(cufftPlanMany(&plan, int(shape.size()), shape.data(), nullptr, 1, 0,
                        nullptr, 1, 0, of<T>::complex_type, batch));
  LIBRARY(of<T>::run(plan, dx.get(), CUFFT_FORWARD));
  auto expected = std::vector<number>(x.begin(), x.end());
  auto whole = shape;
  whole.insert(whole.begin(), batch);
  for (std::size_t i = 0; i < shape.size(); ++i)
    transform(expected, whole, i + 1);
  expect_near(name.c_str(), parts(dx.host()), parts(expected), tolerance);
  LIBRARY(of<T>::run(plan, dx.get(), CUFFT_INVERSE));
  auto back = dx.host();
  for (auto& y : back)
    y /= T(count / std::size_t(batch));
  expect_near("  back", parts(back), parts(x), tolerance);
  LIBRARY(cufftDestroy(plan));
}

void real_numbers() {
  constexpr auto n = 1000;
  auto x = numbers<float>(n, 22);
  auto dx = device_array<float>{x};
  auto dy = device_array<std::complex<float>>{n / 2 + 1};
  cufftHandle there, back;
  LIBRARY(cufftPlan1d(&there, n, CUFFT_R2C, 1));
  LIBRARY(cufftPlan1d(&back, n, CUFFT_C2R, 1));
  auto y = reinterpret_cast<cufftComplex*>(dy.get());
  LIBRARY(cufftExecR2C(there, dx.get(), y));
  auto expected = std::vector<number>(x.begin(), x.end());
  transform(expected, {n}, 0);
  expected.resize(n / 2 + 1);
  expect_near("real", parts(dy.host()), parts(expected), 1e-6);
  LIBRARY(cufftExecC2R(back, y, dx.get()));
  auto got = dx.host();
  for (auto& z : got)
    z /= n;
  expect_near("  back", got, x, 1e-6);
  LIBRARY(cufftDestroy(there));
  LIBRARY(cufftDestroy(back));
}

} // namespace

int main() {
  there_and_back<float>({256}, 3, 1e-6);
  there_and_back<float>({1000}, 1, 1e-6);
  there_and_back<float>({1021}, 1, 1e-5); // prime
  there_and_back<double>({360}, 2, 1e-13);
  there_and_back<float>({48, 60}, 1, 1e-6);
  there_and_back<double>({12, 18, 20}, 1, 1e-13);
  there_and_back<float>({16, 16, 16}, 2, 1e-6);
  real_numbers();
  std::puts("PASSED");
}
