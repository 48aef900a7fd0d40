// Multiplies two square matrices, tile by tile through shared memory.
#include "../example.hpp"

constexpr int tile = 16;

__global__ void multiply(const float* a, const float* b, float* c, int n) {
  __shared__ float tile_a[tile][tile];
  __shared__ float tile_b[tile][tile];
  int row = blockIdx.y * tile + threadIdx.y;
  int column = blockIdx.x * tile + threadIdx.x;
  float sum = 0;
  for (int first = 0; first < n; first += tile) {
    int k_a = first + threadIdx.x;
    int k_b = first + threadIdx.y;
    tile_a[threadIdx.y][threadIdx.x] =
        row < n && k_a < n ? a[row * n + k_a] : 0;
    tile_b[threadIdx.y][threadIdx.x] =
        k_b < n && column < n ? b[k_b * n + column] : 0;
    __syncthreads();
    for (int k = 0; k < tile; ++k)
      sum += tile_a[threadIdx.y][k] * tile_b[k][threadIdx.x];
    __syncthreads();
  }
  if (row < n && column < n)
    c[row * n + column] = sum;
}

int main(int argc, char** argv) {
  long size = 200;
  parse_arguments(argc, argv, "matmul",
                  "Multiplies two square matrices on the GPU.",
                  {{"size", &size, 1, 4096, "rows of each matrix"}});
  int n = static_cast<int>(size);

  // With small whole numbers, every product and sum is exact in a float, in any
  // order of the additions.
  std::vector<float> a(n * n), b(n * n), c(n * n);
  for (int i = 0; i < n * n; ++i) {
    a[i] = static_cast<float>(i % 7 - 3);
    b[i] = static_cast<float>(i % 11 - 5);
  }

  size_t bytes = a.size() * sizeof(float);
  float *dev_a, *dev_b, *dev_c;
  check(cudaMalloc(&dev_a, bytes), "cudaMalloc");
  check(cudaMalloc(&dev_b, bytes), "cudaMalloc");
  check(cudaMalloc(&dev_c, bytes), "cudaMalloc");
  check(cudaMemcpy(dev_a, a.data(), bytes, cudaMemcpyHostToDevice), "copy a");
  check(cudaMemcpy(dev_b, b.data(), bytes, cudaMemcpyHostToDevice), "copy b");
  dim3 block(tile, tile);
  dim3 grid((n + tile - 1) / tile, (n + tile - 1) / tile);
  multiply<<<grid, block>>>(dev_a, dev_b, dev_c, n);
  check(cudaGetLastError(), "launch of multiply");
  check(cudaMemcpy(c.data(), dev_c, bytes, cudaMemcpyDeviceToHost), "copy c");

  std::vector<float> row(n);
  for (int i = 0; i < n; ++i) {
    row.assign(n, 0.0f);
    for (int k = 0; k < n; ++k)
      for (int j = 0; j < n; ++j)
        row[j] += a[i * n + k] * b[k * n + j];
    for (int j = 0; j < n; ++j) {
      if (c[i * n + j] != row[j]) {
        std::printf("matmul: element (%d, %d) is %g, expected %g\n", i, j,
                    c[i * n + j], row[j]);
        return 1;
      }
    }
  }
  check(cudaFree(dev_a), "cudaFree");
  check(cudaFree(dev_b), "cudaFree");
  check(cudaFree(dev_c), "cudaFree");
  std::printf("matmul: %d x %d, all elements right\n", n, n);
}
