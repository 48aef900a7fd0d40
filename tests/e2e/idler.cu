// Holds device memory, makes calls with pauses in between, and prints how long
// each first call after a pause took.
//
//   idler ROUNDS PAUSE_MS|turns MIB
//
// With `turns` a pause lasts until there is a line on its input or the input
// ends. Before each pause it then prints `idle`, and behind it how long the
// call before took.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

namespace {

__global__ void advance(unsigned* words, unsigned n, unsigned round) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += gridDim.x * blockDim.x)
    words[i] = words[i] * 1664525u + round;
}

void check(cudaError_t x) {
  if (x == cudaSuccess)
    return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(x));
  std::exit(1);
}

double milliseconds_since(std::chrono::steady_clock::time_point when) {
  using milliseconds = std::chrono::duration<double, std::milli>;
  return milliseconds{std::chrono::steady_clock::now() - when}.count();
}

void await_turn(double last) {
  std::printf("idle %.1f\n", last);
  std::fflush(stdout);
  for (int c = std::getchar(); c != '\n' && c != EOF;)
    c = std::getchar();
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 4)
    return 2;
  auto rounds = static_cast<unsigned>(std::atoi(argv[1]));
  auto by_turns = std::string_view{argv[2]} == "turns";
  std::chrono::milliseconds pause{std::atoi(argv[2])};
  auto n = static_cast<unsigned>(std::atoi(argv[3])) << 18;
  unsigned* words = nullptr;
  std::vector<unsigned> expected(n), got(n);
  for (unsigned i = 0; i < n; ++i)
    expected[i] = i * 2654435761u;
  check(cudaMalloc(&words, n * 4ul));
  check(cudaMemcpy(words, expected.data(), n * 4ul, cudaMemcpyHostToDevice));
  double last = 0;
  for (unsigned round = 1; round <= rounds; ++round) {
    // The program is idle here.
    if (by_turns)
      await_turn(last);
    else
      std::this_thread::sleep_for(pause);
    auto began = std::chrono::steady_clock::now();
    advance<<<16, 128>>>(words, n, round);
    check(cudaDeviceSynchronize());
    last = milliseconds_since(began);
    if (!by_turns)
      std::printf("%.1f\n", last);
    std::fflush(stdout);
    for (auto& x : expected)
      x = x * 1664525u + round;
  }
  if (by_turns)
    std::printf("end %.1f\n", last);
  check(cudaMemcpy(got.data(), words, n * 4ul, cudaMemcpyDeviceToHost));
  if (got != expected) {
    std::fprintf(stderr, "WRONG\n");
    return 1;
  }
  return 0;
}
