// cuRAND's device generators. Integers are compared with the same generator on
// the host, and distributions by their moments.
// nvcc: -arch=compute_90
#include <cmath>
#include <cstdio>
#include <curand_kernel.h>
#include <vector>

constexpr int threads = 64, draws = 64;

template <class State>
__global__ void integers(unsigned long long seed, unsigned* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  State s;
  curand_init(seed, i, 3, &s);
  for (int k = 0; k < draws; ++k) {
    if (k == draws / 2)
      skipahead(1000, &s);
    out[i * draws + k] = curand(&s);
  }
}

// XORWOW as in Marsaglia's paper, from the state that the device begins with.
__global__ void first_state(unsigned long long seed, curandStateXORWOW_t* out) {
  curand_init(seed, 5, 0, out);
}

// Philox4x32-10 as in "Parallel Random Numbers: As Easy as 1, 2, 3".
static void philox(unsigned c[4], unsigned key0, unsigned key1) {
  for (int round = 0; round < 10; ++round) {
    unsigned long long a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
    unsigned next[4] = {unsigned(b >> 32) ^ c[1] ^ key0, unsigned(b),
                        unsigned(a >> 32) ^ c[3] ^ key1, unsigned(a)};
    for (int k = 0; k < 4; ++k)
      c[k] = next[k];
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
}

struct moments {
  double uniform[2], uniform_double[2], normal[2], normal_double[2],
      log_normal[2], poisson[2], small_poisson[2];
};

template <class State>
__global__ void distributions(moments* out, int rounds) {
  State s;
  curand_init(1234, blockIdx.x * blockDim.x + threadIdx.x, 0, &s);
  moments m = {};
  auto add = [](double* to, double x) {
    to[0] += x;
    to[1] += x * x;
  };
  for (int k = 0; k < rounds; ++k) {
    add(m.uniform, curand_uniform(&s));
    add(m.uniform_double, curand_uniform_double(&s));
    float2 two = curand_normal2(&s);
    add(m.normal, k % 2 ? two.x : two.y);
    add(m.normal_double, curand_normal_double(&s));
    add(m.log_normal, curand_log_normal(&s, 0.f, 0.5f));
    add(m.poisson, curand_poisson(&s, 90.0));
    add(m.small_poisson, curand_poisson(&s, 2.5));
  }
  double* to = reinterpret_cast<double*>(out);
  const double* from = reinterpret_cast<const double*>(&m);
  for (int k = 0; k < int(sizeof m / sizeof(double)); ++k)
    atomicAdd(to + k, from[k]);
}

__global__ void quads(uint4* out) {
  curandStatePhilox4_32_10_t s;
  curand_init(77, threadIdx.x, 0, &s);
  out[threadIdx.x] = curand4(&s);
}

static int failures = 0;

static bool near(double got, double expected, double tolerance) {
  return std::fabs(got - expected) <= tolerance;
}

static void expect(bool ok, const char* generator, const char* what,
                   double got) {
  if (ok)
    return;
  ++failures;
  std::printf("%s, %s: %g\n", generator, what, got);
}

template <class State>
static void try_generator(const char* name) {
  moments* dev;
  moments m = {};
  constexpr int blocks = 8, rounds = 24;
  constexpr double n = 64.0 * blocks * rounds;
  cudaMalloc(&dev, sizeof m);
  cudaMemset(dev, 0, sizeof m);
  distributions<State><<<blocks, 64>>>(dev, rounds);
  cudaError_t e = cudaMemcpy(&m, dev, sizeof m, cudaMemcpyDeviceToHost);
  cudaFree(dev);
  if (e != cudaSuccess) {
    std::printf("%s: %s\n", name, cudaGetErrorString(e));
    ++failures;
    return;
  }
  auto check = [&](const double* x, double mean, double variance,
                   const char* what) {
    double got = x[0] / n, spread = x[1] / n - got * got;
    expect(near(got, mean, 6 * std::sqrt(variance / n)), name, what, got);
    expect(near(spread, variance, 0.08 * variance), name, what, spread);
  };
  check(m.uniform, 0.5, 1.0 / 12, "uniform");
  check(m.uniform_double, 0.5, 1.0 / 12, "uniform double");
  check(m.normal, 0, 1, "normal");
  check(m.normal_double, 0, 1, "normal double");
  double v = 0.25, mean = std::exp(v / 2);
  check(m.log_normal, mean, (std::exp(v) - 1) * std::exp(v), "log normal");
  check(m.poisson, 90, 90, "poisson");
  check(m.small_poisson, 2.5, 2.5, "small poisson");
}

// No two threads draw the same numbers, and a later start continues the stream.
template <class State>
__global__ void later(unsigned* out) {
  State s;
  curand_init(99, 7, 0, &s);
  for (int k = 0; k < 100; ++k)
    curand(&s);
  out[0] = curand(&s);
  curand_init(99, 7, 100, &s);
  out[1] = curand(&s);
}

template <class State>
static void try_offset(const char* name) {
  unsigned *dev, got[2] = {1, 2};
  cudaMalloc(&dev, sizeof got);
  later<State><<<1, 1>>>(dev);
  cudaMemcpy(got, dev, sizeof got, cudaMemcpyDeviceToHost);
  cudaFree(dev);
  expect(got[0] == got[1], name, "offset", got[1]);
}

int main() {
  try_generator<curandStateXORWOW_t>("XORWOW");
  try_generator<curandStatePhilox4_32_10_t>("Philox");
  try_generator<curandStateMRG32k3a_t>("MRG32k3a");
  try_offset<curandStateXORWOW_t>("XORWOW");
  try_offset<curandStatePhilox4_32_10_t>("Philox");
  try_offset<curandStateMRG32k3a_t>("MRG32k3a");

  void* dev;
  cudaMalloc(&dev, threads * draws * 4);
  auto state = static_cast<curandStateXORWOW_t*>(dev);
  curandStateXORWOW_t host;
  first_state<<<1, 1>>>(42, state);
  cudaMemcpy(&host, state, sizeof host, cudaMemcpyDeviceToHost);
  unsigned from_host[draws], got[threads * draws] = {};
  for (auto& x : from_host) {
    unsigned t = host.v[0] ^ (host.v[0] >> 2);
    for (int k = 0; k < 4; ++k)
      host.v[k] = host.v[k + 1];
    host.v[4] = (host.v[4] ^ (host.v[4] << 4)) ^ (t ^ (t << 1));
    x = host.v[4] + (host.d += 362437);
  }
  integers<curandStateXORWOW_t>
      <<<1, threads>>>(42, static_cast<unsigned*>(dev));
  cudaMemcpy(got, dev, sizeof got, cudaMemcpyDeviceToHost);
  // This stream began three numbers later.
  for (int k = 0; k < draws / 2 - 3; ++k)
    expect(got[5 * draws + k] == from_host[k + 3], "XORWOW", "integers",
           got[5 * draws + k]);

  quads<<<1, 32>>>(static_cast<uint4*>(dev));
  cudaMemcpy(got, dev, 32 * sizeof(uint4), cudaMemcpyDeviceToHost);
  for (unsigned i = 0; i < 32; ++i) {
    unsigned c[4] = {0, 0, i, 0};
    philox(c, 77, 0);
    for (int k = 0; k < 4; ++k)
      expect(got[4 * i + k] == c[k], "Philox", "integers", got[4 * i + k]);
  }
  cudaFree(dev);
  if (failures != 0)
    return 1;
  std::printf("ok\n");
}
