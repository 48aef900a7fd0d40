// Measures well-known algorithms on the device, compared with plain C++ on one
// core of the host.
// nvcc: -O2 -arch=compute_90 -lbenchmark
#include <algorithm>
#include <benchmark/benchmark.h>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cub/device/device_radix_sort.cuh>
#include <stdexcept>
#include <vector>

namespace {

void check(cudaError_t e) {
  if (e != cudaSuccess)
    throw std::runtime_error{cudaGetErrorString(e)};
}

template <class T>
class on_device {
public:
  explicit on_device(std::size_t count) : count_{count} {
    check(cudaMalloc(&data_, count * sizeof(T)));
    check(cudaMemset(data_, 0, count * sizeof(T)));
  }
  explicit on_device(const std::vector<T>& from) : on_device(from.size()) {
    check(cudaMemcpy(data_, from.data(), from.size() * sizeof(T),
                     cudaMemcpyHostToDevice));
  }
  on_device(const on_device&) = delete;
  on_device& operator=(const on_device&) = delete;
  ~on_device() { cudaFree(data_); }
  T* get() const { return data_; }
  void expect(const std::vector<T>& expected, double tolerance = 0) const {
    auto got = std::vector<T>(count_);
    check(cudaMemcpy(got.data(), data_, count_ * sizeof(T),
                     cudaMemcpyDeviceToHost));
    for (auto i = std::size_t{0}; i < count_; ++i)
      if (std::fabs(double(got[i]) - double(expected[i])) >
          tolerance * (1 + std::fabs(double(expected[i]))))
        throw std::runtime_error{"a wrong result"};
  }

private:
  T* data_ = nullptr;
  std::size_t count_;
};

std::vector<float> floats(std::size_t count) {
  auto out = std::vector<float>(count);
  for (auto i = std::size_t{0}; i < count; ++i)
    out[i] = float(i * 2654435761u % 1024) / 1024;
  return out;
}

std::vector<std::uint32_t> words(std::size_t count) {
  auto out = std::vector<std::uint32_t>(count);
  for (auto i = std::size_t{0}; i < count; ++i)
    out[i] = std::uint32_t(i) * 2654435761u ^ std::uint32_t(i >> 3);
  return out;
}

/// Measures `launch` until the device is done.
template <class F>
void on_the_device(benchmark::State& state, F launch) {
  for ([[maybe_unused]] auto _ : state) {
    launch();
    check(cudaGetLastError());
    check(cudaDeviceSynchronize());
  }
}

// -- matrix product -----------------------------------------------------------

constexpr int tile = 32;

__global__ void multiply(const float* a, const float* b, float* c, int n) {
  __shared__ float x[tile][tile], y[tile][tile];
  int row = blockIdx.y * tile + threadIdx.y;
  int column = blockIdx.x * tile + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += tile) {
    x[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
    y[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < tile; ++i)
      sum += x[threadIdx.y][i] * y[i][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

void multiply(const std::vector<float>& a, const std::vector<float>& b,
              std::vector<float>& c, int n) {
  std::fill(c.begin(), c.end(), 0.f);
  for (int i0 = 0; i0 < n; i0 += tile)
    for (int k0 = 0; k0 < n; k0 += tile)
      for (int j0 = 0; j0 < n; j0 += tile)
        for (int i = i0; i < i0 + tile; ++i)
          for (int k = k0; k < k0 + tile; ++k)
            for (int j = j0; j < j0 + tile; ++j)
              c[i * n + j] += a[i * n + k] * b[k * n + j];
}

void matmul(benchmark::State& state) {
  auto n = int(state.range(1));
  auto a = floats(std::size_t(n) * n), b = floats(std::size_t(n) * n), c = a;
  if (state.range(0) == 0) {
    for ([[maybe_unused]] auto _ : state)
      multiply(a, b, c, n);
    return;
  }
  auto x = on_device{a}, y = on_device{b}, z = on_device<float>{a.size()};
  on_the_device(state, [&] {
    multiply<<<dim3(n / tile, n / tile), dim3(tile, tile)>>>(x.get(), y.get(),
                                                             z.get(), n);
  });
  multiply(a, b, c, n);
  z.expect(c, 1e-4);
}

// -- n bodies -----------------------------------------------------------------

__host__ __device__ float4 pull(float4 me, float4 other, float4 sum) {
  float x = other.x - me.x, y = other.y - me.y, z = other.z - me.z;
  float inverse = 1 / sqrtf(x * x + y * y + z * z + 0.01f);
  float by = other.w * inverse * inverse * inverse;
  return make_float4(sum.x + x * by, sum.y + y * by, sum.z + z * by, 0);
}

__global__ void forces(const float4* bodies, float4* out, int n) {
  __shared__ float4 near[256];
  float4 me = bodies[blockIdx.x * 256 + threadIdx.x], sum = {};
  for (int k = 0; k < n; k += 256) {
    near[threadIdx.x] = bodies[k + threadIdx.x];
    __syncthreads();
#pragma unroll 8
    for (int i = 0; i < 256; ++i)
      sum = pull(me, near[i], sum);
    __syncthreads();
  }
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}

void n_body(benchmark::State& state) {
  auto n = int(state.range(1));
  auto from = floats(std::size_t(n) * 4);
  auto bodies = reinterpret_cast<const float4*>(from.data());
  auto out = std::vector<float4>(std::size_t(n));
  if (state.range(0) == 0) {
    for ([[maybe_unused]] auto _ : state) {
      for (int i = 0; i < n; ++i) {
        auto sum = float4{};
        for (int k = 0; k < n; ++k)
          sum = pull(bodies[i], bodies[k], sum);
        out[std::size_t(i)] = sum;
      }
      benchmark::DoNotOptimize(out.data());
    }
    return;
  }
  auto x = on_device{from}, y = on_device<float>{from.size()};
  on_the_device(state, [&] {
    forces<<<n / 256, 256>>>(reinterpret_cast<const float4*>(x.get()),
                             reinterpret_cast<float4*>(y.get()), n);
  });
}

// -- memory -------------------------------------------------------------------

__global__ void saxpy(int n, float a, const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    y[i] = a * x[i] + y[i];
}

void saxpy(benchmark::State& state) {
  auto n = int(state.range(1));
  auto x = floats(std::size_t(n)), y = x;
  if (state.range(0) == 0) {
    for ([[maybe_unused]] auto _ : state) {
      for (int i = 0; i < n; ++i)
        y[std::size_t(i)] = 0.5f * x[std::size_t(i)] + y[std::size_t(i)];
      benchmark::DoNotOptimize(y.data());
    }
    return;
  }
  auto dev_x = on_device{x}, dev_y = on_device{y};
  on_the_device(state, [&] {
    saxpy<<<(n + 255) / 256, 256>>>(n, 0.5f, dev_x.get(), dev_y.get());
  });
}

__global__ void sum_up(const float* in, float* out, int n) {
  __shared__ float part[32];
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += gridDim.x * blockDim.x)
    sum += in[i];
  for (int offset = 16; offset > 0; offset /= 2)
    sum += __shfl_down_sync(~0u, sum, offset);
  if (threadIdx.x % 32 == 0)
    part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
    for (int offset = 16; offset > 0; offset /= 2)
      sum += __shfl_down_sync(~0u, sum, offset);
    if (threadIdx.x == 0)
      atomicAdd(out, sum);
  }
}

void reduction(benchmark::State& state) {
  auto n = int(state.range(1));
  auto x = floats(std::size_t(n));
  if (state.range(0) == 0) {
    for ([[maybe_unused]] auto _ : state) {
      auto sum = 0.f;
      for (auto v : x)
        sum += v;
      benchmark::DoNotOptimize(sum);
    }
    return;
  }
  auto dev_x = on_device{x}, sum = on_device<float>{1};
  on_the_device(state, [&] { sum_up<<<64, 256>>>(dev_x.get(), sum.get(), n); });
}

__global__ void count(const std::uint32_t* in, unsigned* bins, int n) {
  __shared__ unsigned mine[256];
  mine[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += gridDim.x * blockDim.x)
    atomicAdd(&mine[in[i] >> 24], 1);
  __syncthreads();
  atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}

void histogram(benchmark::State& state) {
  auto n = int(state.range(1));
  auto x = words(std::size_t(n));
  auto bins = std::vector<unsigned>(256);
  if (state.range(0) == 0) {
    for ([[maybe_unused]] auto _ : state) {
      for (auto v : x)
        ++bins[v >> 24];
      benchmark::DoNotOptimize(bins.data());
    }
    return;
  }
  auto dev_x = on_device{x};
  auto dev_bins = on_device<unsigned>{256};
  on_the_device(state,
                [&] { count<<<64, 256>>>(dev_x.get(), dev_bins.get(), n); });
}

// -- sorting ------------------------------------------------------------------

// Sorts by the least significant byte first, like CUB.
void sort_words(std::vector<std::uint32_t>& x, std::vector<std::uint32_t>& y) {
  for (auto shift = 0u; shift < 32; shift += 8) {
    std::size_t begin[257] = {};
    for (auto v : x)
      ++begin[(v >> shift & 255) + 1];
    for (auto d = 0u; d < 256; ++d)
      begin[d + 1] += begin[d];
    for (auto v : x)
      y[begin[v >> shift & 255]++] = v;
    x.swap(y);
  }
}

void radix_sort(benchmark::State& state) {
  auto n = int(state.range(1));
  auto from = words(std::size_t(n)), x = from, y = from;
  if (state.range(0) == 0) {
    for ([[maybe_unused]] auto _ : state) {
      x = from;
      sort_words(x, y);
    }
    return;
  }
  auto in = on_device{from}, out = on_device<std::uint32_t>{from.size()};
  auto bytes = std::size_t{0};
  check(cub::DeviceRadixSort::SortKeys(nullptr, bytes, in.get(), out.get(), n));
  auto scratch = on_device<char>{bytes};
  on_the_device(state, [&] {
    check(cub::DeviceRadixSort::SortKeys(scratch.get(), bytes, in.get(),
                                         out.get(), n));
  });
  sort_words(x, y);
  out.expect(x);
}

/// Declares each benchmark twice, for the host (0) and for the device (1).
void declare(bool short_run) {
  auto add = [](const char* name, void (*f)(benchmark::State&), int n) {
    for (auto where : {0, 1})
      benchmark::RegisterBenchmark(name, f)
          ->Args({where, n})
          ->ArgNames({"device", ""})
          ->UseRealTime()
          ->Unit(benchmark::kMillisecond);
  };
  add("matmul", matmul, short_run ? 512 : 1024);
  add("n_body", n_body, short_run ? 2048 : 8192);
  auto n = short_run ? 1 << 20 : 1 << 22;
  add("saxpy", saxpy, n);
  add("reduction", reduction, n);
  add("histogram", histogram, n);
  add("radix_sort", radix_sort, n);
}

} // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv))
    return 2;
  declare(std::getenv("BENCH_SHORT") != nullptr);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
