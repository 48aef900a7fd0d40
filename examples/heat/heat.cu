// Computes how heat spreads over a square plate with fixed temperatures at the
// rim, by Jacobi's method with one launch per step. The same arguments give the
// same bits in every run and on every device, so two runs can be compared line
// by line.
#include "../example.hpp"

#include <chrono>
#include <cstdint>
#include <thread>

// No product is followed by an addition, so the compiler cannot fuse anything,
// and host and GPU round in the same way.
__host__ __device__ float mean(float up, float down, float left, float right) {
  return ((up + down) + (left + right)) * 0.25f;
}

__global__ void step(const float* from, float* to, int n) {
  int column = blockIdx.x * blockDim.x + threadIdx.x + 1;
  int row = blockIdx.y * blockDim.y + threadIdx.y + 1;
  if (column < n - 1 && row < n - 1) {
    int i = row * n + column;
    to[i] = mean(from[i - n], from[i + n], from[i - 1], from[i + 1]);
  }
}

// One block sums a row, in a fixed order of additions.
constexpr int sum_threads = 64;

__global__ void sum_rows(const float* plate, double* sums, int n) {
  __shared__ double part[sum_threads];
  double sum = 0;
  for (int column = threadIdx.x; column < n; column += sum_threads)
    sum += plate[blockIdx.x * n + column];
  part[threadIdx.x] = sum;
  for (int width = sum_threads / 2; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width)
      part[threadIdx.x] += part[threadIdx.x + width];
  }
  if (threadIdx.x == 0)
    sums[blockIdx.x] = part[0];
}

static std::vector<float> cold_plate(int n) {
  std::vector<float> plate(static_cast<size_t>(n) * n, 0.0f);
  for (int i = 0; i < n; ++i) {
    plate[i] = 100.0f;
    plate[i * n] = 37.5f + static_cast<float>(i % 10);
    plate[i * n + n - 1] = -20.0f;
  }
  return plate;
}

/// Returns the plate after `steps` steps, computed by the host.
static std::vector<float> expected_plate(int n, long steps) {
  auto from = cold_plate(n);
  auto to = from;
  for (long s = 0; s < steps; ++s) {
    const float* in = from.data();
    float* out = to.data();
    for (int row = 1; row < n - 1; ++row)
      for (int i = row * n + 1; i < row * n + n - 1; ++i)
        out[i] = mean(in[i - n], in[i + n], in[i - 1], in[i + 1]);
    from.swap(to);
  }
  return from;
}

static uint64_t checksum(const float* plate, double* dev_sums, int n) {
  std::vector<double> sums(n);
  sum_rows<<<n, sum_threads>>>(plate, dev_sums, n);
  check(cudaGetLastError(), "launch of sum_rows");
  check(cudaMemcpy(sums.data(), dev_sums, n * sizeof(double),
                   cudaMemcpyDeviceToHost),
        "copy of the row sums");
  double total = 0;
  for (double sum : sums)
    total += sum;
  uint64_t bits;
  std::memcpy(&bits, &total, sizeof bits);
  return bits;
}

int main(int argc, char** argv) {
  long steps = 1500, size = 256, every = 100, pause = 0;
  parse_arguments(
      argc, argv, "heat",
      "Spreads heat over a plate; prints a checksum every few steps.",
      {{"steps", &steps, 1, 100000000, "how many steps"},
       {"size", &size, 3, 16384, "rows and columns of the plate"},
       {"print-every", &every, 1, 100000000, "steps between two checksums"},
       {"pause", &pause, -1, 60000,
        "milliseconds to wait after a checksum; -1: until a line is typed"}});
  int n = static_cast<int>(size);

  auto plate = cold_plate(n);
  size_t bytes = plate.size() * sizeof(float);
  float *from, *to;
  double* dev_sums;
  check(cudaMalloc(&from, bytes), "cudaMalloc");
  check(cudaMalloc(&to, bytes), "cudaMalloc");
  check(cudaMalloc(&dev_sums, n * sizeof(double)), "cudaMalloc");
  check(cudaMemcpy(from, plate.data(), bytes, cudaMemcpyHostToDevice),
        "copy of the plate");
  check(cudaMemcpy(to, plate.data(), bytes, cudaMemcpyHostToDevice),
        "copy of the plate");

  dim3 block(32, 8);
  dim3 grid((n - 2 + 31) / 32, (n - 2 + 7) / 8);
  for (long s = 1; s <= steps; ++s) {
    step<<<grid, block>>>(from, to, n);
    std::swap(from, to);
    if (s % every == 0 || s == steps) {
      check(cudaGetLastError(), "launch of step");
      std::printf("step %ld checksum %016llx\n", s,
                  static_cast<unsigned long long>(checksum(from, dev_sums, n)));
      std::fflush(stdout);
      if (pause < 0)
        while (std::getchar() != '\n' && !std::feof(stdin))
          continue;
      else
        std::this_thread::sleep_for(std::chrono::milliseconds(pause));
    }
  }
  check(cudaMemcpy(plate.data(), from, bytes, cudaMemcpyDeviceToHost),
        "copy of the plate back");
  check(cudaFree(from), "cudaFree");
  check(cudaFree(to), "cudaFree");
  check(cudaFree(dev_sums), "cudaFree");

  bool right = plate == expected_plate(n, steps);
  std::printf("heat: %d x %d, %ld steps, %s\n", n, n, steps,
              right ? "bit for bit as on the host" : "WRONG");
  return right ? 0 : 1;
}
