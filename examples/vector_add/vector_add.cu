// Adds two vectors: the smallest complete CUDA program.
#include "../example.hpp"

__global__ void add(const float* a, const float* b, float* sum, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    sum[i] = a[i] + b[i];
}

int main(int argc, char** argv) {
  long n = 1 << 20;
  parse_arguments(argc, argv, "vector_add", "Adds two vectors on the GPU.",
                  {{"elements", &n, 1, 1 << 28, "length of the vectors"}});

  std::vector<float> a(n), b(n), sum(n);
  for (long i = 0; i < n; ++i) {
    a[i] = 0.5f * static_cast<float>(i % 1000);
    b[i] = 0.25f * static_cast<float>(i % 777);
  }

  size_t bytes = n * sizeof(float);
  float *dev_a, *dev_b, *dev_sum;
  check(cudaMalloc(&dev_a, bytes), "cudaMalloc");
  check(cudaMalloc(&dev_b, bytes), "cudaMalloc");
  check(cudaMalloc(&dev_sum, bytes), "cudaMalloc");
  check(cudaMemcpy(dev_a, a.data(), bytes, cudaMemcpyHostToDevice), "copy a");
  check(cudaMemcpy(dev_b, b.data(), bytes, cudaMemcpyHostToDevice), "copy b");

  add<<<(n + 255) / 256, 256>>>(dev_a, dev_b, dev_sum, static_cast<int>(n));
  check(cudaGetLastError(), "launch of add");
  check(cudaMemcpy(sum.data(), dev_sum, bytes, cudaMemcpyDeviceToHost),
        "copy sum");

  for (long i = 0; i < n; ++i) {
    if (sum[i] != a[i] + b[i]) {
      std::printf("vector_add: element %ld is %g, expected %g\n", i, sum[i],
                  a[i] + b[i]);
      return 1;
    }
  }
  check(cudaFree(dev_a), "cudaFree");
  check(cudaFree(dev_b), "cudaFree");
  check(cudaFree(dev_sum), "cudaFree");
  std::printf("vector_add: %ld sums, all right\n", n);
}
