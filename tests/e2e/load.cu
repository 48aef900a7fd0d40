// Launches kernels of a fixed length until it is told to stop by the clock, and
// prints how many were done between two points in time. So many are on their
// way that a late wake-up of the program does not leave the device idle.
//
//   load BEGIN END LOOPS        (milliseconds since 1970)
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace {

__global__ void turn(unsigned* out, unsigned loops) {
  unsigned x = threadIdx.x + blockIdx.x;
  for (unsigned i = 0; i < loops; ++i)
    x = x * 1664525u + 1013904223u;
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

long long now() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch())
      .count();
}

void check(cudaError_t x) {
  if (x == cudaSuccess)
    return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(x));
  std::exit(1);
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 4)
    return 2;
  auto begin = std::atoll(argv[1]);
  auto end = std::atoll(argv[2]);
  auto loops = static_cast<unsigned>(std::atoi(argv[3]));
  constexpr unsigned blocks = 8, threads = 128, batch = 4, depth = 16;
  cudaEvent_t ends[depth];
  for (auto& x : ends)
    check(cudaEventCreateWithFlags(&x, cudaEventDisableTiming));
  unsigned* out = nullptr;
  check(cudaMalloc(&out, blocks * threads * sizeof(unsigned)));
  long long done = 0;
  for (unsigned n = 0; now() < end; ++n) {
    auto& oldest = ends[n % depth];
    check(cudaEventSynchronize(oldest));
    if (n >= depth && now() >= begin)
      done += batch;
    for (unsigned i = 0; i < batch; ++i)
      turn<<<blocks, threads>>>(out, loops);
    check(cudaGetLastError());
    check(cudaEventRecord(oldest));
  }
  check(cudaDeviceSynchronize());
  check(cudaFree(out));
  std::printf("%lld\n", done);
  return 0;
}
