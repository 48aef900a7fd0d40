// Vectors of half and bfloat16: arithmetic, comparisons, functions,
// conversions and atomics, against the host's emulation in the same headers.
// nvcc: -arch=compute_90 -std=c++17
#include <cmath>
#include <cstdio>
#include <cstring>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <vector>

constexpr int results = 18;

template <class V>
__device__ void exact(V a, V b, V c, V* out) {
  out[0] = __hadd2(a, b);
  out[1] = __hsub2(a, b);
  out[2] = __hmul2(a, b);
  out[3] = __h2div(a, b);
  out[4] = __hfma2(a, b, c);
  out[5] = __hneg2(a);
  out[6] = __habs2(a);
  out[7] = __hmin2(a, b);
  out[8] = __hmax2(a, b);
  out[9] = __heq2(a, b);
  out[10] = __hgt2(a, b);
  out[11] = __hadd2_sat(a, b);
  out[12] = __hfma2_sat(a, b, c);
  out[13] = a - b;
  out[14] = __hbne2(a, b) ? a : b;
  out[15] = V(__hadd(a.x, b.y), __hmul(a.x, b.y));
  out[16] = V(a.x < b.y ? a.x : b.y, __hmax(a.x, b.y));
  out[17] = V(__hfma(a.x, b.x, c.y), __hdiv(a.x, b.y));
}

// Computes the same in double and rounds once, which is exact for so few bits.
struct pair {
  double x, y;
};
static void expected(pair a, pair b, pair c, pair* out) {
  auto each = [&](int k, auto f) {
    out[k] = {f(a.x, b.x, c.x), f(a.y, b.y, c.y)};
  };
  auto cut = [](double x) { return x > 1 ? 1.0 : x > 0 ? x : 0.0; };
  auto fma = [](double x, double y, double z) { return x * y + z; };
  each(0, [](double x, double y, double) { return x + y; });
  each(1, [](double x, double y, double) { return x - y; });
  each(2, [](double x, double y, double) { return x * y; });
  each(3, [](double x, double y, double) { return x / y; });
  each(4, fma);
  each(5, [](double x, double, double) { return -x; });
  each(6, [](double x, double, double) { return std::fabs(x); });
  each(7, [](double x, double y, double) { return std::fmin(x, y); });
  each(8, [](double x, double y, double) { return std::fmax(x, y); });
  each(9, [](double x, double y, double) { return double(x == y); });
  each(10, [](double x, double y, double) { return double(x > y); });
  each(11, [&](double x, double y, double) { return cut(x + y); });
  each(12, [&](double x, double y, double z) { return cut(fma(x, y, z)); });
  out[13] = out[1];
  out[14] = a.x != b.x && a.y != b.y ? a : b;
  out[15] = {a.x + b.y, a.x * b.y};
  out[16] = {std::fmin(a.x, b.y), std::fmax(a.x, b.y)};
  out[17] = {fma(a.x, b.x, c.y), a.x / b.y};
}

template <class V>
__global__ void compute(const V* in, int n, V* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    exact(in[i], in[(i * 7 + 3) % n], in[(i * 11 + 5) % n], out + i * results);
}

// Functions, which may differ in the last place.
constexpr int functions = 11;
__global__ void approximate(const __half2* in, int n, float2* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  __half2 x = __habs2(in[i]), one = __float2half2_rn(1.f);
  x = __hmin2(x, __float2half2_rn(8.f));
  __half2 y = __hadd2(x, one);
  __half2 r[functions] = {h2exp(x),  h2exp2(x),  h2log(y), h2log2(y),
                          h2sqrt(x), h2rsqrt(y), h2rcp(y), h2sin(x),
                          h2cos(x),  h2floor(x), h2rint(x)};
  for (int k = 0; k < functions; ++k)
    out[i * functions + k] = __half22float2(r[k]);
}

// Adds atomically in every way.
__global__ void atomics(__half* h, __half2* h2, __nv_bfloat16* b,
                        __nv_bfloat162* b2) {
  atomicAdd(h, __float2half(0.5f));
  atomicAdd(h2, __floats2half2_rn(1.f, 2.f));
  atomicAdd(b, __float2bfloat16(1.f));
  atomicAdd(b2, __floats2bfloat162_rn(2.f, -1.f));
}

// Shuffles, loads through the read-only cache, 8-bit formats.
__global__ void others(const __half2* in, __half2* shuffled, float2* narrow,
                       int* integers) {
  int t = threadIdx.x;
  __half2 x = __ldg(in + t);
  shuffled[t] = __shfl_xor_sync(~0u, x, 5);
  __nv_fp8x2_e4m3 small(__half22float2(x));
  narrow[2 * t] = float2(small);
  __nv_fp8x2_e5m2 wide(__half22float2(x));
  narrow[2 * t + 1] = float2(wide);
  integers[4 * t] = __half2int_rz(x.x);
  integers[4 * t + 1] = __half2int_rn(x.y);
  integers[4 * t + 2] = __half2short_rd(x.x);
  integers[4 * t + 3] = int(__half_as_ushort(__int2half_ru(t * 1001)));
}

static int failures = 0;
static void expect(bool ok, const char* what, int i, int k) {
  if (!ok && ++failures < 10)
    std::printf("%s: number %d, result %d\n", what, i, k);
}

static bool same(float p, float q) {
  return std::isnan(p) ? std::isnan(q) : p == q;
}

template <class V>
static void try_exact(const char* what) {
  constexpr int n = 512;
  std::vector<V> in(n), got(n * results);
  for (int i = 0; i < n; ++i) {
    unsigned bits = unsigned(i) * 2654435761u;
    float x = float(int(bits >> 16) - 32768) / 512, y = float(bits % 977) / 8;
    in[i] = V(i % 61 == 5 ? float(INFINITY) : x, i % 67 == 3 ? 0.f : y);
  }
  V *a, *b;
  cudaMalloc(&a, n * sizeof(V));
  cudaMalloc(&b, n * results * sizeof(V));
  cudaMemcpy(a, in.data(), n * sizeof(V), cudaMemcpyHostToDevice);
  compute<<<n / 128, 128>>>(a, n, b);
  cudaError_t e =
      cudaMemcpy(got.data(), b, got.size() * sizeof(V), cudaMemcpyDeviceToHost);
  if (e != cudaSuccess)
    std::printf("%s: %s\n", what, cudaGetErrorString(e));
  for (int i = 0; i < n; ++i) {
    auto wide = [&](int at) { return pair{float(in[at].x), float(in[at].y)}; };
    pair out[results];
    expected(wide(i), wide((i * 7 + 3) % n), wide((i * 11 + 5) % n), out);
    for (int k = 0; k < results; ++k) {
      V x = got[i * results + k];
      using scalar = decltype(x.x);
      expect(same(float(scalar(out[k].x)), float(x.x)) &&
                 same(float(scalar(out[k].y)), float(x.y)),
             what, i, k);
    }
  }
  cudaFree(a);
  cudaFree(b);
}

int main() {
  try_exact<__half2>("half");
  try_exact<__nv_bfloat162>("bfloat16");

  constexpr int n = 64;
  std::vector<__half2> in(n);
  for (int i = 0; i < n; ++i)
    in[i] = __floats2half2_rn(i * 0.173f - 2, i * 0.31f);
  char* memory;
  if (cudaMalloc(&memory, 1 << 16) != cudaSuccess)
    return 1;
  auto dev_in = reinterpret_cast<__half2*>(memory);
  cudaMemcpy(dev_in, in.data(), n * 4, cudaMemcpyHostToDevice);
  auto out = reinterpret_cast<float2*>(memory + 1024);
  approximate<<<1, n>>>(dev_in, n, out);
  std::vector<float2> got(n * functions);
  cudaMemcpy(got.data(), out, got.size() * 8, cudaMemcpyDeviceToHost);
  for (int i = 0; i < n; ++i)
    for (int half = 0; half < 2; ++half) {
      double x = std::fmin(std::fabs(float(half ? in[i].y : in[i].x)), 8.0);
      double y = float(__float2half(float(x + 1)));
      double expected[] = {std::exp(x),   std::exp2(x),     std::log(y),
                           std::log2(y),  std::sqrt(x),     1 / std::sqrt(y),
                           1 / y,         std::sin(x),      std::cos(x),
                           std::floor(x), std::nearbyint(x)};
      for (int k = 0; k < functions; ++k) {
        float2 pair = got[i * functions + k];
        double d = std::fabs((half ? pair.y : pair.x) - expected[k]);
        expect(d <= 2e-3 * std::fabs(expected[k]) + 1e-3, "function", i, k);
      }
    }

  cudaMemset(memory + 1024, 0, 64);
  auto sums = reinterpret_cast<__half2*>(memory + 1024);
  atomics<<<2, 40>>>(&sums[0].x, sums + 1,
                     reinterpret_cast<__nv_bfloat16*>(sums + 2),
                     reinterpret_cast<__nv_bfloat162*>(sums + 3));
  __half2 host[4];
  cudaMemcpy(host, sums, sizeof host, cudaMemcpyDeviceToHost);
  __nv_bfloat162 wide[2];
  memcpy(wide, host + 2, sizeof wide);
  expect(float(host[0].x) == 40, "atomic", 0, 0);
  expect(float(host[1].x) == 80 && float(host[1].y) == 160, "atomic", 1, 0);
  expect(float(wide[0].x) == 80, "atomic", 2, 0);
  expect(float(wide[1].x) == 160 && float(wide[1].y) == -80, "atomic", 3, 0);

  auto shuffled = reinterpret_cast<__half2*>(memory + 2048);
  auto narrow = reinterpret_cast<float2*>(memory + 4096);
  auto integers = reinterpret_cast<int*>(memory + 8192);
  others<<<1, 32>>>(dev_in, shuffled, narrow, integers);
  __half2 moved[32];
  float2 eighths[64];
  int whole[128];
  cudaMemcpy(moved, shuffled, sizeof moved, cudaMemcpyDeviceToHost);
  cudaMemcpy(eighths, narrow, sizeof eighths, cudaMemcpyDeviceToHost);
  cudaMemcpy(whole, integers, sizeof whole, cudaMemcpyDeviceToHost);
  for (int t = 0; t < 32; ++t) {
    float2 x = __half22float2(in[t]);
    expect(same(float(moved[t].x), float(in[t ^ 5].x)) &&
               same(float(moved[t].y), float(in[t ^ 5].y)),
           "shuffle", t, 0);
    float2 small = float2(__nv_fp8x2_e4m3(x)),
           wider = float2(__nv_fp8x2_e5m2(x));
    expect(eighths[2 * t].x == small.x && eighths[2 * t].y == small.y, "e4m3",
           t, 0);
    expect(eighths[2 * t + 1].x == wider.x && eighths[2 * t + 1].y == wider.y,
           "e5m2", t, 0);
    expect(whole[4 * t] == int(x.x) && whole[4 * t + 1] == std::lrint(x.y) &&
               whole[4 * t + 2] == int(std::floor(x.x)) &&
               whole[4 * t + 3] ==
                   int(__half_as_ushort(__int2half_ru(t * 1001))),
           "integer", t, 0);
  }
  if (failures != 0)
    return 1;
  std::printf("ok\n");
}
