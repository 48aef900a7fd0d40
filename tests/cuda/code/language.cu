// C++ features in kernels: containers and algorithms of libcu++, lambdas,
// 128-bit integers, variadic templates, large parameters, inline PTX.
// nvcc: -arch=compute_90 -std=c++20 --extended-lambda --expt-relaxed-constexpr
#include <cstdint>
#include <cstdio>
#include <cuda/std/array>
#include <cuda/std/bit>
#include <cuda/std/cmath>
#include <cuda/std/limits>
#include <cuda/std/mdspan>
#include <cuda/std/optional>
#include <cuda/std/span>
#include <cuda/std/tuple>
#include <cuda/std/variant>
#include <vector>

namespace std_ = cuda::std;

__global__ void containers(std_::span<const int> in,
                           std_::array<long, 8>* out) {
  using matrix =
      std_::mdspan<const int, std_::extents<int, 4, std_::dynamic_extent>>;
  matrix m(in.data(), int(in.size() / 4));
  auto& o = *out;
  o.fill(0);
  for (int i = 0; i < m.extent(0); ++i)
    for (int j = 0; j < m.extent(1); ++j)
      o[0] += m(i, j) * (i + 1);
  auto find = [&](int x) -> std_::optional<std::size_t> {
    for (std::size_t i = 0; i < in.size(); ++i)
      if (in[i] == x)
        return i;
    return std_::nullopt;
  };
  o[1] = long(find(49).value_or(1000));
  o[2] = find(-1).has_value();
  std_::variant<int, double, std_::tuple<short, float>> v;
  for (int i = 0; i < 6; ++i) {
    if (i % 3 == 0)
      v = i;
    else if (i % 3 == 1)
      v = i * 0.5;
    else
      v = std_::make_tuple(short(i), 0.25f);
    o[3] += std_::visit(
        [](const auto& x) -> long {
          if constexpr (std_::is_same_v<std_::remove_cvref_t<decltype(x)>,
                                        std_::tuple<short, float>>)
            return std_::get<0>(x) * 100 + long(std_::get<1>(x) * 4);
          else
            return long(x * 10);
        },
        v);
  }
  o[4] = std_::popcount(0xf0f0u) + std_::countl_zero(1u) +
         int(std_::rotl(uint8_t(0x81), 1));
  o[5] = std_::numeric_limits<long>::max();
  o[6] = std_::bit_cast<int>(1.0f);
  o[7] = long(std_::hypot(3.0, 4.0)) + std_::isnan(std_::sqrt(-1.0));
}

template <class... Fs>
__global__ void apply_all(int* data, int n, Fs... fs) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    ((data[i] = fs(data[i])), ...);
}

__global__ void wide_integers(const uint64_t* in, uint64_t* out, int n) {
  int i = threadIdx.x;
  if (i >= n)
    return;
  unsigned __int128 a = (unsigned __int128)in[3 * i] << 64 | in[3 * i + 1];
  unsigned __int128 b = in[3 * i + 2];
  unsigned __int128 r[4] = {a * b + 1, a / b, a % b, (a - b) >> 37 ^ a << 3};
  for (int k = 0; k < 4; ++k) {
    out[8 * i + 2 * k] = uint64_t(r[k] >> 64);
    out[8 * i + 2 * k + 1] = uint64_t(r[k]);
  }
}

// Holds more than 4 KiB of parameters, which are indexed at run time.
struct large {
  int table[3000];
  double scale;
};
__global__ void parameters(const __grid_constant__ large x, short by,
                           double* out) {
  out[threadIdx.x] = x.table[threadIdx.x * by % 3000] * x.scale;
}

__global__ void inline_ptx(const unsigned* in, unsigned* out) {
  unsigned a = in[threadIdx.x], b = in[threadIdx.x ^ 1], r;
  asm volatile("{\n\t"
               ".reg .pred p;\n\t"
               ".reg .u32 t;\n\t"
               "setp.lt.u32 p, %1, %2;\n\t"
               "@p bra less;\n\t"
               "sub.u32 t, %1, %2;\n\t"
               "bra done;\n"
               "less:\n\t"
               "add.u32 t, %1, %2;\n"
               "done:\n\t"
               "lop3.b32 %0, t, %1, %2, 0x96;\n\t"
               "}"
               : "=r"(r)
               : "r"(a), "r"(b));
  unsigned low, high, lane;
  asm("add.cc.u32 %0, %2, %3;\n\taddc.u32 %1, 0, 0;"
      : "=r"(low), "=r"(high)
      : "r"(a), "r"(b));
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  out[threadIdx.x] = r ^ low ^ high << 7 ^ lane;
}

template <int N>
struct fibonacci {
  static constexpr long value =
      fibonacci<N - 1>::value + fibonacci<N - 2>::value;
};
template <>
struct fibonacci<0> {
  static constexpr long value = 0;
};
template <>
struct fibonacci<1> {
  static constexpr long value = 1;
};
__device__ constexpr long known[] = {fibonacci<10>::value,
                                     fibonacci<50>::value};
__global__ void constants(long* out) {
  switch (threadIdx.x) {
  case 0:
  case 1:
    out[threadIdx.x] = known[threadIdx.x];
    break;
  case 2:
  case 3:
  case 4:
  case 5:
  case 6:
  case 7: {
    static_assert(sizeof(long) == 8);
    long x = 1;
    for (auto k : {2, 3, 5, 7})
      x = x * k + threadIdx.x;
    out[threadIdx.x] = x;
    break;
  }
  default:
    break;
  }
}

static int failures = 0;
static void expect(bool ok, const char* what, int i = 0) {
  if (!ok && ++failures < 10)
    std::printf("%s (%d): %s\n", what, i,
                cudaGetErrorString(cudaGetLastError()));
}

int main() {
  char* memory;
  if (cudaMalloc(&memory, 1 << 16) != cudaSuccess)
    return 1;
  std::vector<int> squares(20);
  long weighted = 0;
  for (int i = 0; i < 20; ++i) {
    squares[i] = i * i;
    weighted += squares[i] * (i / 5 + 1);
  }
  auto ints = reinterpret_cast<int*>(memory);
  auto longs = reinterpret_cast<long*>(memory + 4096);
  cudaMemcpy(ints, squares.data(), 80, cudaMemcpyHostToDevice);
  containers<<<1, 1>>>({ints, 20},
                       reinterpret_cast<std_::array<long, 8>*>(longs));
  long o[8] = {};
  cudaMemcpy(o, longs, sizeof o, cudaMemcpyDeviceToHost);
  long visited = 0 + 5 + (200 + 1) + 30 + 20 + (500 + 1);
  const long expected[] = {weighted,   7,         0,          visited,
                           8 + 31 + 3, INT64_MAX, 0x3f800000, 5 + 1};
  for (int k = 0; k < 8; ++k)
    expect(o[k] == expected[k], "container", k);

  int offset = 100;
  apply_all<<<1, 32>>>(
      ints, 20, [] __device__(int x) { return x + 1; },
      [offset] __device__(int x) { return x * 2 + offset; },
      [=] __host__ __device__(int x) { return x % 97 - offset; });
  std::vector<int> applied(20);
  cudaMemcpy(applied.data(), ints, 80, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 20; ++i)
    expect(applied[i] == ((i * i + 1) * 2 + 100) % 97 - 100, "lambda", i);

  constexpr int n = 30;
  std::vector<uint64_t> words(3 * n), wide(8 * n);
  for (int i = 0; i < 3 * n; ++i)
    words[i] = (i + 1) * 0x9e3779b97f4a7c15ull >> (i * 7 % 50);
  auto dev_words = reinterpret_cast<uint64_t*>(memory);
  cudaMemcpy(dev_words, words.data(), words.size() * 8, cudaMemcpyHostToDevice);
  wide_integers<<<1, 32>>>(dev_words, dev_words + 3 * n, n);
  cudaMemcpy(wide.data(), dev_words + 3 * n, wide.size() * 8,
             cudaMemcpyDeviceToHost);
  for (int i = 0; i < n; ++i) {
    auto a = (unsigned __int128)words[3 * i] << 64 | words[3 * i + 1];
    unsigned __int128 b = words[3 * i + 2];
    unsigned __int128 r[4] = {a * b + 1, a / b, a % b, (a - b) >> 37 ^ a << 3};
    for (int k = 0; k < 4; ++k)
      expect(wide[8 * i + 2 * k] == uint64_t(r[k] >> 64) &&
                 wide[8 * i + 2 * k + 1] == uint64_t(r[k]),
             "wide integer", i);
  }

  static large x;
  for (int i = 0; i < 3000; ++i)
    x.table[i] = i * 31;
  x.scale = 0.5;
  auto doubles = reinterpret_cast<double*>(memory);
  parameters<<<1, 64>>>(x, 77, doubles);
  double scaled[64] = {};
  cudaMemcpy(scaled, doubles, sizeof scaled, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 64; ++i)
    expect(scaled[i] == i * 77 % 3000 * 31 * 0.5, "parameter", i);

  unsigned in[32], out[32] = {};
  for (unsigned i = 0; i < 32; ++i)
    in[i] = i * 0x1f3d5b79u;
  auto dev = reinterpret_cast<unsigned*>(memory);
  cudaMemcpy(dev, in, sizeof in, cudaMemcpyHostToDevice);
  inline_ptx<<<1, 32>>>(dev, dev + 32);
  cudaMemcpy(out, dev + 32, sizeof out, cudaMemcpyDeviceToHost);
  for (unsigned i = 0; i < 32; ++i) {
    unsigned a = in[i], b = in[i ^ 1], t = a < b ? a + b : a - b;
    expect(out[i] == (t ^ a ^ b ^ (a + b) ^ (a + b < a ? 128 : 0) ^ i),
           "inline PTX", int(i));
  }

  constants<<<1, 16>>>(longs);
  cudaMemcpy(o, longs, sizeof o, cudaMemcpyDeviceToHost);
  expect(o[0] == 55 && o[1] == 12586269025, "constant");
  for (long i = 2; i < 8; ++i)
    expect(o[i] == (((2 + i) * 3 + i) * 5 + i) * 7 + i, "switch", int(i));
  if (failures != 0)
    return 1;
  std::printf("ok\n");
}
