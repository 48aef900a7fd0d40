// Options as finance samples price them: Black-Scholes by intrinsics and in
// double, binomial trees in shared memory, paths with a quasi-random sequence,
// a reduction in fixed order.
#include <cmath>
#include <cstdio>
#include <vector>

template <class T>
__host__ __device__ T normal_cdf(T d) {
  return T(0.5) * erfc(-d * T(0.70710678118654752));
}

// The polynomial of Abramowitz and Stegun, with fast intrinsics.
__device__ float fast_cdf(float d) {
  float k = __fdividef(1.f, 1.f + 0.2316419f * fabsf(d));
  float c =
      0.39894228f * __expf(-0.5f * d * d) *
      (k * (0.31938153f +
            k * (-0.356563782f +
                 k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f)))));
  return d > 0 ? 1.f - c : c;
}

struct option {
  float price, strike, years;
};
constexpr float rate = 0.02f, volatility = 0.3f;

template <class T>
__host__ __device__ T black_scholes(option o) {
  T s = o.price, x = o.strike, t = o.years, root = sqrt(t);
  T d1 = (log(s / x) + (T(rate) + T(0.5) * T(volatility) * T(volatility)) * t) /
         (T(volatility) * root);
  return s * normal_cdf(d1) -
         x * exp(-T(rate) * t) * normal_cdf(d1 - T(volatility) * root);
}

__global__ void price(const option* in, float* fast, float* exact, double* wide,
                      int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += gridDim.x * blockDim.x) {
    option o = in[i];
    float root = sqrtf(o.years);
    float d1 = __fdividef(__logf(__fdividef(o.price, o.strike)) +
                              (rate + 0.5f * volatility * volatility) * o.years,
                          volatility * root);
    fast[i] = o.price * fast_cdf(d1) - o.strike * __expf(-rate * o.years) *
                                           fast_cdf(d1 - volatility * root);
    exact[i] = black_scholes<float>(o);
    wide[i] = black_scholes<double>(o);
  }
}

constexpr int tree_steps = 512;
__global__ void binomial(const option* in, float* out) {
  __shared__ float value[tree_steps + 1];
  option o = in[blockIdx.x];
  float dt = o.years / tree_steps,
        up = exp2f(1.44269504f * volatility * sqrtf(dt));
  float p = (expf(rate * dt) - 1 / up) / (up - 1 / up);
  float a = expf(-rate * dt) * p, b = expf(-rate * dt) * (1 - p);
  for (int i = threadIdx.x; i <= tree_steps; i += blockDim.x)
    value[i] =
        fmaxf(o.price * powf(up, float(2 * i - tree_steps)) - o.strike, 0);
  for (int step = tree_steps; step > 0; --step) {
    float mine[4];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      int i = threadIdx.x + k * blockDim.x;
      if (i < step)
        mine[k] = a * value[i + 1] + b * value[i];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      int i = threadIdx.x + k * blockDim.x;
      if (i < step)
        value[i] = mine[k];
    }
  }
  if (threadIdx.x == 0)
    out[blockIdx.x] = value[0];
}

// A van der Corput sequence through the inverse normal distribution.
__global__ void paths(option o, double* sums, int each) {
  __shared__ double part[128];
  int t = threadIdx.x, first = (blockIdx.x * blockDim.x + t) * each;
  double sum = 0, drift = (rate - 0.5 * volatility * volatility) * o.years;
  for (int i = first; i < first + each; ++i) {
    double u = (__brev(unsigned(i)) + 0.5) / 4294967296.0;
    double end = o.price * exp(drift + volatility * sqrt(double(o.years)) *
                                           normcdfinv(u));
    sum += fmax(end - o.strike, 0.0);
  }
  part[t] = sum;
  for (int half = 64; half > 0; half /= 2) {
    __syncthreads();
    if (t < half)
      part[t] += part[t + half];
  }
  if (t == 0)
    sums[blockIdx.x] = part[0] * exp(-double(rate) * o.years);
}

int main() {
  constexpr int n = 20000, trees = 48, blocks = 16, each = 32;
  std::vector<option> options(n);
  unsigned seed = 5;
  auto random = [&](float low, float high) {
    seed = seed * 1664525 + 1013904223;
    return low + (high - low) * float(seed >> 8) / (1 << 24);
  };
  for (auto& o : options)
    o = {random(5, 30), random(1, 100), random(0.25f, 10)};
  option* dev;
  float *fast, *exact, *tree;
  double *wide, *sums;
  if (cudaMalloc(&dev, n * sizeof *dev) || cudaMalloc(&fast, n * 4) ||
      cudaMalloc(&exact, n * 4) || cudaMalloc(&wide, n * 8) ||
      cudaMalloc(&tree, trees * 4) || cudaMalloc(&sums, blocks * 8))
    return 1;
  cudaMemcpy(dev, options.data(), n * sizeof *dev, cudaMemcpyHostToDevice);
  price<<<20, 128>>>(dev, fast, exact, wide, n);
  binomial<<<trees, 128>>>(dev, tree);
  paths<<<blocks, 128>>>(options[0], sums, each);
  std::vector<float> f(n), e(n), b(trees);
  std::vector<double> w(n), s(blocks);
  cudaMemcpy(f.data(), fast, n * 4, cudaMemcpyDeviceToHost);
  cudaMemcpy(e.data(), exact, n * 4, cudaMemcpyDeviceToHost);
  cudaMemcpy(w.data(), wide, n * 8, cudaMemcpyDeviceToHost);
  cudaMemcpy(b.data(), tree, trees * 4, cudaMemcpyDeviceToHost);
  cudaError_t status =
      cudaMemcpy(s.data(), sums, blocks * 8, cudaMemcpyDeviceToHost);
  if (status != cudaSuccess) {
    std::printf("%s\n", cudaGetErrorString(status));
    return 1;
  }
  for (int i = 0; i < n; ++i) {
    double expected = black_scholes<double>(options[i]);
    if (std::fabs(w[i] - expected) > 1e-12 * (1 + expected) ||
        std::fabs(e[i] - expected) > 1e-4 ||
        std::fabs(f[i] - expected) > 1e-3) {
      std::printf("option %d: %.12g %g %g, not %.12g\n", i, w[i], e[i], f[i],
                  expected);
      return 1;
    }
    if (i < trees && std::fabs(b[i] - expected) > 0.02) {
      std::printf("tree %d: %g, not %g\n", i, b[i], expected);
      return 1;
    }
  }
  double sum = 0;
  for (double x : s)
    sum += x;
  sum /= blocks * 128 * each;
  double expected = black_scholes<double>(options[0]);
  if (std::fabs(sum - expected) > 0.01) {
    std::printf("paths: %g, not %g\n", sum, expected);
    return 1;
  }
  std::printf("ok\n");
}
