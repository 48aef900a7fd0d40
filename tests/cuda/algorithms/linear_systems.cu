// Linear equations: LU decomposition with pivots, a triangular solution in one
// block, Jacobi's iteration in a cooperative grid, conjugate gradients.
#include <cmath>
#include <cooperative_groups.h>
#include <cstdio>
#include <vector>

namespace cg = cooperative_groups;

__global__ void find_pivot(const double* a, int n, int k, int* pivot) {
  __shared__ double most[128];
  __shared__ int where[128];
  int t = threadIdx.x;
  most[t] = -1;
  for (int i = k + t; i < n; i += blockDim.x)
    if (fabs(a[i * n + k]) > most[t]) {
      most[t] = fabs(a[i * n + k]);
      where[t] = i;
    }
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (t < half && most[t + half] > most[t]) {
      most[t] = most[t + half];
      where[t] = where[t + half];
    }
  }
  if (t == 0)
    pivot[k] = where[0];
}

__global__ void swap_rows(double* a, double* b, int n, int k,
                          const int* pivot) {
  int j = blockIdx.x * blockDim.x + threadIdx.x, p = pivot[k];
  double* x = j < n ? &a[k * n + j] : &b[k];
  double* y = j < n ? &a[p * n + j] : &b[p];
  if (j <= n && p != k) {
    double t = *x;
    *x = *y;
    *y = t;
  }
}

__global__ void eliminate(double* a, int n, int k) {
  int i = k + 1 + blockIdx.y * blockDim.y + threadIdx.y;
  int j = k + 1 + blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && j < n)
    a[i * n + j] -= a[i * n + k] / a[k * n + k] * a[k * n + j];
}

__global__ void scale_column(double* a, int n, int k) {
  int i = k + 1 + blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    a[i * n + k] /= a[k * n + k];
}

__global__ void solve(const double* lu, double* b, int n) {
  for (int k = 0; k < n; ++k) {
    __syncthreads();
    for (int i = k + 1 + threadIdx.x; i < n; i += blockDim.x)
      b[i] -= lu[i * n + k] * b[k];
  }
  for (int k = n - 1; k >= 0; --k) {
    __syncthreads();
    if (threadIdx.x == 0)
      b[k] /= lu[k * n + k];
    __syncthreads();
    for (int i = threadIdx.x; i < k; i += blockDim.x)
      b[i] -= lu[i * n + k] * b[k];
  }
}

// Iterates until the largest change is small, which all blocks decide together.
__global__ void jacobi(const double* a, const double* b, double* x,
                       double* next, int n, int* changed, int* rounds) {
  auto grid = cg::this_grid();
  int round = 0;
  do {
    if (grid.thread_rank() == 0)
      changed[(round + 1) % 3] = 0;
    for (int i = grid.thread_rank(); i < n; i += grid.size()) {
      double sum = b[i];
      for (int j = 0; j < n; ++j)
        sum -= j == i ? 0 : a[i * n + j] * x[j];
      next[i] = sum / a[i * n + i];
      if (fabs(next[i] - x[i]) > 1e-12)
        changed[round % 3] = 1;
    }
    grid.sync();
    double* t = x;
    x = next;
    next = t;
  } while (*(volatile int*)&changed[round++ % 3] != 0 && round < 500);
  if (grid.thread_rank() == 0)
    *rounds = round;
}

// Computes a dot product in one block, by shuffles.
__device__ double dot(const double* x, const double* y, int n) {
  __shared__ double of_warps[32];
  double sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    sum += x[i] * y[i];
  for (int offset = 16; offset > 0; offset /= 2)
    sum += __shfl_xor_sync(~0u, sum, offset);
  __syncthreads();
  if (threadIdx.x % 32 == 0)
    of_warps[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int w = 0; w < blockDim.x / 32; ++w)
    sum += of_warps[w];
  return sum;
}

__global__ void conjugate_gradients(const double* a, const double* b,
                                    double* out, int n) {
  extern __shared__ double memory[];
  double *x = memory, *r = x + n, *p = r + n, *q = p + n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    x[i] = 0;
    r[i] = p[i] = b[i];
  }
  __syncthreads();
  double rr = dot(r, r, n);
  for (int round = 0; round < n && rr > 1e-24; ++round) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
      double sum = 0;
      for (int j = 0; j < n; ++j)
        sum += a[i * n + j] * p[j];
      q[i] = sum;
    }
    __syncthreads();
    double alpha = rr / dot(p, q, n);
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
      x[i] += alpha * p[i];
      r[i] -= alpha * q[i];
    }
    __syncthreads();
    double next = dot(r, r, n);
    for (int i = threadIdx.x; i < n; i += blockDim.x)
      p[i] = r[i] + next / rr * p[i];
    rr = next;
    __syncthreads();
  }
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    out[i] = x[i];
}

static bool solved(const char* what, const std::vector<double>& a,
                   const std::vector<double>& b, const double* dev_x) {
  int n = int(b.size());
  std::vector<double> x(n);
  cudaError_t e =
      cudaMemcpy(x.data(), dev_x, n * sizeof(double), cudaMemcpyDeviceToHost);
  for (int i = 0; i < n; ++i) {
    double sum = -b[i];
    for (int j = 0; j < n; ++j)
      sum += a[i * n + j] * x[j];
    if (e != cudaSuccess || !(std::fabs(sum) < 1e-8)) {
      std::printf("%s: equation %d is off by %g: %s\n", what, i, sum,
                  cudaGetErrorString(e));
      return false;
    }
  }
  return true;
}

int main() {
  constexpr int n = 96;
  std::vector<double> general(n * n), dominant(n * n), b(n);
  unsigned seed = 3;
  auto random = [&] {
    seed = seed * 1664525 + 1013904223;
    return double(seed >> 8) / (1 << 24) - 0.5;
  };
  for (int i = 0; i < n; ++i) {
    b[i] = random();
    for (int j = 0; j < n; ++j)
      general[i * n + j] = i == j ? 0 : random(); // needs its pivots
  }
  for (int i = 0; i < n; ++i)
    for (int j = 0; j <= i; ++j)
      dominant[i * n + j] = dominant[j * n + i] = i == j ? n : random();
  double *a, *x, *y;
  int *pivot, *words;
  if (cudaMalloc(&a, n * n * 8) || cudaMalloc(&x, n * 8) ||
      cudaMalloc(&y, n * 8) || cudaMalloc(&pivot, n * 4) ||
      cudaMalloc(&words, 16))
    return 1;

  cudaMemcpy(a, general.data(), n * n * 8, cudaMemcpyHostToDevice);
  cudaMemcpy(x, b.data(), n * 8, cudaMemcpyHostToDevice);
  for (int k = 0; k < n; ++k) {
    find_pivot<<<1, 128>>>(a, n, k, pivot);
    swap_rows<<<1, 128>>>(a, x, n, k, pivot);
    eliminate<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(a, n, k);
    scale_column<<<1, 128>>>(a, n, k);
  }
  solve<<<1, 128>>>(a, x, n);
  if (!solved("LU", general, b, x))
    return 1;

  cudaMemcpy(a, dominant.data(), n * n * 8, cudaMemcpyHostToDevice);
  cudaMemcpy(x, b.data(), n * 8, cudaMemcpyHostToDevice);
  conjugate_gradients<<<1, 96, 4 * n * 8>>>(a, x, y, n);
  if (!solved("conjugate gradients", dominant, b, y))
    return 1;

  double *right = x, *solution = y, *spare;
  int *changed = words, *rounds = words + 3, count = n, blocks = 0;
  cudaMalloc(&spare, n * 8);
  cudaMemset(solution, 0, n * 8);
  cudaMemset(words, 0, 16);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, jacobi, 32, 0);
  void* arguments[] = {&a,     &right,   &solution, &spare,
                       &count, &changed, &rounds};
  cudaLaunchCooperativeKernel((const void*)jacobi, blocks < 3 ? 1 : 3, 32,
                              arguments, 0, nullptr);
  int took = 0;
  cudaMemcpy(&took, rounds, sizeof took, cudaMemcpyDeviceToHost);
  if (!solved("Jacobi", dominant, b, took % 2 == 0 ? solution : spare))
    return 1;
  std::printf("ok\n");
}
