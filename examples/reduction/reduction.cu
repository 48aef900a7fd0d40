// Sums an array: in registers, then by warp shuffles, then one value per block.
#include "../example.hpp"

constexpr int block_size = 256;

__device__ long long warp_sum(long long value) {
  for (int offset = 16; offset > 0; offset /= 2)
    value += __shfl_down_sync(0xffffffffu, value, offset);
  return value;
}

__global__ void sum_blocks(const int* in, long long* out, long n) {
  long long sum = 0;
  for (long i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += gridDim.x * blockDim.x)
    sum += in[i];

  __shared__ long long of_warp[block_size / 32];
  int lane = threadIdx.x % 32;
  int warp = threadIdx.x / 32;
  sum = warp_sum(sum);
  if (lane == 0)
    of_warp[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    sum = warp_sum(lane < block_size / 32 ? of_warp[lane] : 0);
    if (lane == 0)
      out[blockIdx.x] = sum;
  }
}

int main(int argc, char** argv) {
  long n = 1 << 22;
  parse_arguments(argc, argv, "reduction", "Sums an array on the GPU.",
                  {{"elements", &n, 1, 1 << 28, "length of the array"}});

  std::vector<int> in(n);
  long long expected = 0;
  for (long i = 0; i < n; ++i) {
    in[i] = static_cast<int>((i * 2654435761u) >> 8 & 0xffffff) - (1 << 23);
    expected += in[i];
  }

  constexpr int blocks = 64;
  int* dev_in;
  long long* dev_out;
  check(cudaMalloc(&dev_in, n * sizeof(int)), "cudaMalloc");
  check(cudaMalloc(&dev_out, blocks * sizeof(long long)), "cudaMalloc");
  check(cudaMemcpy(dev_in, in.data(), n * sizeof(int), cudaMemcpyHostToDevice),
        "copy in");
  sum_blocks<<<blocks, block_size>>>(dev_in, dev_out, n);
  check(cudaGetLastError(), "launch of sum_blocks");
  std::vector<long long> of_block(blocks);
  check(cudaMemcpy(of_block.data(), dev_out, blocks * sizeof(long long),
                   cudaMemcpyDeviceToHost),
        "copy out");
  check(cudaFree(dev_in), "cudaFree");
  check(cudaFree(dev_out), "cudaFree");

  long long sum = 0;
  for (long long s : of_block)
    sum += s;
  std::printf("reduction: %ld elements, sum %lld, %s\n", n, sum,
              sum == expected ? "right" : "WRONG");
  return sum == expected ? 0 : 1;
}
