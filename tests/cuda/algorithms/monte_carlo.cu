// Computes pi by random points, with a generator in every thread and an atomic
// count. The host uses the same points.
#include <cstdint>
#include <iostream>

__host__ __device__ inline uint32_t next(uint64_t& state) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  uint32_t shifted = uint32_t(((state >> 18) ^ state) >> 27);
  uint32_t rotation = uint32_t(state >> 59);
  return (shifted >> rotation) | (shifted << ((32 - rotation) & 31));
}

__host__ __device__ inline unsigned throw_darts(uint64_t seed, int darts) {
  uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
  unsigned inside = 0;
  for (int i = 0; i < darts; ++i) {
    uint64_t x = next(state) >> 1, y = next(state) >> 1;
    inside += x * x + y * y < (uint64_t(1) << 62);
  }
  return inside;
}

__global__ void play(unsigned long long* inside, int darts) {
  unsigned mine = throw_darts(blockIdx.x * blockDim.x + threadIdx.x, darts);
  atomicAdd(inside, mine);
}

int main() {
  const int blocks = 32, threads = 128, darts = 50;
  unsigned long long *dev, got = 0, want = 0;
  if (cudaMalloc(&dev, sizeof *dev) || cudaMemset(dev, 0, sizeof *dev))
    return 1;
  play<<<blocks, threads>>>(dev, darts);
  if (cudaMemcpy(&got, dev, sizeof got, cudaMemcpyDeviceToHost))
    return 1;
  for (int i = 0; i < blocks * threads; ++i)
    want += throw_darts(i, darts);
  double pi = 4.0 * double(got) / (blocks * threads * darts);
  std::cout << "pi is about " << pi << '\n';
  if (got != want || pi < 3.1 || pi > 3.2) {
    std::cout << got << " darts inside, the host says " << want << '\n';
    return 1;
  }
  std::cout << "ok\n";
}
