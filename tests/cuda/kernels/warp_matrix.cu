// Warp matrix multiplication: wmma of several types, mma and ldmatrix in
// PTX, with asynchronous copies into shared memory.
// nvcc: -arch=compute_90
#include <cstdint>
#include <cstdio>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>
#include <vector>

using namespace nvcuda;
constexpr int n = 128;

// Each warp computes a tile of 16 x 16. B is stored by columns.
template <class T, class Sum>
__global__ void with_wmma(const T* a, const T* b, Sum* c) {
  int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  int row = warp / (n / 16) * 16, column = warp % (n / 16) * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> x;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::col_major> y;
  wmma::fragment<wmma::accumulator, 16, 16, 16, Sum> sum;
  wmma::fill_fragment(sum, Sum(0));
  for (int k = 0; k < n; k += 16) {
    wmma::load_matrix_sync(x, a + row * n + k, n);
    wmma::load_matrix_sync(y, b + column * n + k, n);
    wmma::mma_sync(sum, x, y, sum);
  }
  for (int i = 0; i < sum.num_elements; ++i)
    sum.x[i] = sum.x[i] * Sum(2);
  wmma::store_matrix_sync(c + row * n + column, sum, n, wmma::mem_row_major);
}

__global__ void with_tf32(const float* a, const float* b, float* c) {
  int row = blockIdx.y * 16, column = blockIdx.x * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32,
                 wmma::row_major>
      x;
  wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32,
                 wmma::col_major>
      y;
  wmma::fragment<wmma::accumulator, 16, 16, 8, float> sum;
  wmma::fill_fragment(sum, 0.f);
  for (int k = 0; k < n; k += 8) {
    wmma::load_matrix_sync(x, a + row * n + k, n);
    wmma::load_matrix_sync(y, b + column * n + k, n);
    for (int i = 0; i < x.num_elements; ++i)
      x.x[i] = wmma::__float_to_tf32(x.x[i]);
    for (int i = 0; i < y.num_elements; ++i)
      y.x[i] = wmma::__float_to_tf32(y.x[i]);
    wmma::mma_sync(sum, x, y, sum);
  }
  wmma::store_matrix_sync(c + row * n + column, sum, n, wmma::mem_row_major);
}

__global__ void in_double(const double* a, const double* b, double* c) {
  int row = blockIdx.y * 8, column = blockIdx.x * 8;
  wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> x;
  wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::col_major> y;
  wmma::fragment<wmma::accumulator, 8, 8, 4, double> sum;
  wmma::fill_fragment(sum, 0.0);
  for (int k = 0; k < n; k += 4) {
    wmma::load_matrix_sync(x, a + row * n + k, n);
    wmma::load_matrix_sync(y, b + column * n + k, n);
    wmma::mma_sync(sum, x, y, sum);
  }
  wmma::store_matrix_sync(c + row * n + column, sum, n, wmma::mem_row_major);
}

__device__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Uses asynchronous copies, ldmatrix and mma, like libraries. A block is one
// warp and computes 16 x 8.
__global__ void with_mma(const __half* a, const __half* b, float* c) {
  __shared__ alignas(16) __half x[2][16 * 16], y[2][8 * 16];
  int lane = threadIdx.x, row = blockIdx.y * 16, column = blockIdx.x * 8;
  auto fetch = [&](int k, int stage) {
    __pipeline_memcpy_async(&x[stage][lane * 8],
                            a + (row + lane / 2) * n + k + lane % 2 * 8, 16);
    if (lane < 16)
      __pipeline_memcpy_async(&y[stage][lane * 8],
                              b + (column + lane / 2) * n + k + lane % 2 * 8,
                              16);
    __pipeline_commit();
  };
  float d[4] = {};
  fetch(0, 0);
  for (int k = 0; k < n; k += 16) {
    int stage = k / 16 % 2;
    if (k + 16 < n) {
      fetch(k + 16, 1 - stage);
      __pipeline_wait_prior(1);
    } else {
      __pipeline_wait_prior(0);
    }
    __syncwarp();
    uint32_t p[4], q[2];
    asm volatile(
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(p[0]), "=r"(p[1]), "=r"(p[2]), "=r"(p[3])
        : "r"(shared_address(&x[stage][lane % 16 * 16 + lane / 16 * 8])));
    asm volatile(
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
        : "=r"(q[0]), "=r"(q[1])
        : "r"(shared_address(&y[stage][lane % 8 * 16 + lane / 8 % 2 * 8])));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "r"(q[0]),
                   "r"(q[1]));
    __syncwarp();
  }
  float* to = c + (row + lane / 4) * n + column + lane % 4 * 2;
  to[0] = d[0];
  to[1] = d[1];
  to[8 * n] = d[2];
  to[8 * n + 1] = d[3];
}

static std::vector<int> numbers(unsigned x) {
  std::vector<int> out(n * n);
  for (auto& y : out) {
    x = x * 1664525 + 1013904223;
    y = int(x >> 24) % 9 - 4;
  }
  return out;
}

static const std::vector<int> left = numbers(1), right = numbers(2);
static std::vector<int> product(n* n);

template <class T>
static T* upload(const std::vector<int>& x) {
  std::vector<T> converted(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    converted[i] = T(float(x[i]));
  T* out = nullptr;
  cudaMalloc(&out, x.size() * sizeof(T));
  cudaMemcpy(out, converted.data(), x.size() * sizeof(T),
             cudaMemcpyHostToDevice);
  return out;
}

// Uses small integers, so that all sums are exact in every format.
template <class T, class Sum, class Kernel>
static bool check(const char* what, Kernel kernel, dim3 grid, dim3 block,
                  int factor) {
  T *a = upload<T>(left), *b = upload<T>(right);
  Sum* c = nullptr;
  cudaMalloc(&c, n * n * sizeof(Sum));
  kernel<<<grid, block>>>(a, b, c);
  std::vector<Sum> got(n * n);
  cudaError_t e =
      cudaMemcpy(got.data(), c, n * n * sizeof(Sum), cudaMemcpyDeviceToHost);
  cudaFree(a);
  cudaFree(b);
  cudaFree(c);
  for (int i = 0; i < n * n; ++i)
    if (e != cudaSuccess || float(got[i]) != float(product[i] * factor)) {
      std::printf("%s: element %d is %g, not %d: %s\n", what, i, float(got[i]),
                  product[i] * factor, cudaGetErrorString(e));
      return false;
    }
  return true;
}

int main() {
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j)
      for (int k = 0; k < n; ++k)
        product[i * n + j] += left[i * n + k] * right[j * n + k];
  dim3 warps(n * n / 256 / 4), four(128), tiles(n / 16, n / 16), one(32);
  bool ok =
      check<__half, float>("half", with_wmma<__half, float>, warps, four, 2) &
      check<__half, __half>("half sums", with_wmma<__half, __half>, warps, four,
                            2) &
      check<__nv_bfloat16, float>("bfloat16", with_wmma<__nv_bfloat16, float>,
                                  warps, four, 2) &
      check<signed char, int>("int8", with_wmma<signed char, int>, warps, four,
                              2) &
      check<float, float>("tf32", with_tf32, tiles, one, 1) &
      check<double, double>("double", in_double, dim3(n / 8, n / 8), one, 1) &
      check<__half, float>("mma", with_mma, dim3(n / 8, n / 16), one, 1);
  if (!ok)
    return 1;
  std::printf("ok\n");
}
