// cuRAND from the host: each generator's numbers are spread as they should be,
// and come out the same for the same seed.
// nvcc: -std=c++17 -lcurand
#include "checked.hpp"

#include <curand.h>

namespace {

constexpr auto count = std::size_t{20000};

struct moments {
  double mean = 0, variance = 0;
};

template <class T>
moments of(const std::vector<T>& x) {
  auto out = moments{};
  for (auto v : x)
    out.mean += double(v) / double(x.size());
  for (auto v : x)
    out.variance += (v - out.mean) * (v - out.mean) / double(x.size());
  return out;
}

template <class T, class Make>
void expect_spread(const char* what, Make make, moments wanted,
                   double tolerance) {
  auto x = device_array<T>{count};
  make(x.get());
  auto got = x.host();
  auto found = of(got);
  std::printf("  %s: mean %.4f, variance %.4f, %016llx\n", what, found.mean,
              found.variance, static_cast<unsigned long long>(digest(got)));
  EXPECT(std::abs(found.mean - wanted.mean) < tolerance);
  EXPECT(std::abs(found.variance - wanted.variance) < tolerance);
}

void pseudo(curandRngType_t kind, const char* name) {
  std::printf("%s\n", name);
  auto first = std::vector<std::uint32_t>{};
  for (auto round : {0, 1}) {
    curandGenerator_t g;
    LIBRARY(curandCreateGenerator(&g, kind));
    LIBRARY(curandSetPseudoRandomGeneratorSeed(g, 1234));
    auto x = device_array<std::uint32_t>{count};
    LIBRARY(curandGenerate(g, x.get(), count));
    if (round == 0)
      first = x.host();
    else
      EXPECT(x.host() == first);
    expect_spread<float>(
        "uniform",
        [&](auto* p) { LIBRARY(curandGenerateUniform(g, p, count)); },
        {0.5, 1.0 / 12}, 0.01);
    expect_spread<float>(
        "normal",
        [&](auto* p) { LIBRARY(curandGenerateNormal(g, p, count, 1, 2)); },
        {1, 4}, 0.15);
    expect_spread<double>(
        "log normal",
        [&](auto* p) {
          LIBRARY(curandGenerateLogNormalDouble(g, p, count, 0, 0.25));
        },
        {1.0317, 0.0686}, 0.02);
    expect_spread<unsigned>(
        "poisson",
        [&](auto* p) { LIBRARY(curandGeneratePoisson(g, p, count, 10)); },
        {10, 10}, 0.4);
    LIBRARY(curandDestroyGenerator(g));
  }
}

} // namespace

int main() {
  pseudo(CURAND_RNG_PSEUDO_XORWOW, "XORWOW");
  pseudo(CURAND_RNG_PSEUDO_PHILOX4_32_10, "Philox");
  pseudo(CURAND_RNG_PSEUDO_MRG32K3A, "MRG32k3a");
  pseudo(CURAND_RNG_PSEUDO_MTGP32, "MTGP32");
  std::puts("Sobol");
  curandGenerator_t g;
  LIBRARY(curandCreateGenerator(&g, CURAND_RNG_QUASI_SOBOL32));
  LIBRARY(curandSetQuasiRandomGeneratorDimensions(g, 4));
  expect_spread<float>(
      "uniform", [&](auto* p) { LIBRARY(curandGenerateUniform(g, p, count)); },
      {0.5, 1.0 / 12}, 0.001);
  LIBRARY(curandDestroyGenerator(g));
  std::puts("PASSED");
}
