// Counts byte values: each block first counts in shared memory, then all blocks
// add their counts to global memory atomically.
#include "../example.hpp"

constexpr int bins = 256;

__global__ void count(const unsigned char* data, long n, unsigned* histogram) {
  __shared__ unsigned of_block[bins];
  of_block[threadIdx.x] = 0;
  __syncthreads();
  for (long i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += gridDim.x * blockDim.x)
    atomicAdd(&of_block[data[i]], 1u);
  __syncthreads();
  if (of_block[threadIdx.x])
    atomicAdd(&histogram[threadIdx.x], of_block[threadIdx.x]);
}

int main(int argc, char** argv) {
  long n = 1 << 22;
  parse_arguments(argc, argv, "histogram", "Counts byte values on the GPU.",
                  {{"bytes", &n, 1, 1 << 30, "how many bytes to count"}});

  std::vector<unsigned char> data(n);
  std::vector<unsigned> expected(bins);
  unsigned state = 12345;
  for (auto& byte : data) {
    state = state * 1664525u + 1013904223u;
    // The product of two bytes favours small values, so bins differ.
    byte =
        static_cast<unsigned char>(((state >> 24) * (state >> 16 & 255)) >> 8);
    ++expected[byte];
  }

  unsigned char* dev_data;
  unsigned* dev_histogram;
  check(cudaMalloc(&dev_data, n), "cudaMalloc");
  check(cudaMalloc(&dev_histogram, bins * sizeof(unsigned)), "cudaMalloc");
  check(cudaMemcpy(dev_data, data.data(), n, cudaMemcpyHostToDevice),
        "copy data");
  check(cudaMemset(dev_histogram, 0, bins * sizeof(unsigned)), "cudaMemset");
  count<<<64, bins>>>(dev_data, n, dev_histogram);
  check(cudaGetLastError(), "launch of count");
  std::vector<unsigned> histogram(bins);
  check(cudaMemcpy(histogram.data(), dev_histogram, bins * sizeof(unsigned),
                   cudaMemcpyDeviceToHost),
        "copy histogram");
  check(cudaFree(dev_data), "cudaFree");
  check(cudaFree(dev_histogram), "cudaFree");

  int fullest = 0;
  for (int bin = 0; bin < bins; ++bin) {
    if (histogram[bin] != expected[bin]) {
      std::printf("histogram: bin %d holds %u, expected %u\n", bin,
                  histogram[bin], expected[bin]);
      return 1;
    }
    if (histogram[bin] > histogram[fullest])
      fullest = bin;
  }
  std::printf("histogram: %ld bytes, fullest bin %d holds %u, all right\n", n,
              fullest, histogram[fullest]);
}
