// Kernels print some 30 MB, and every line arrives once.
#include "../check.hpp"

#include <cstdio>
#include <thread>
#include <vector>

#include <unistd.h>

namespace {

constexpr int rounds = 100;
constexpr int lines_a_round = 1024;

__global__ void print_line(int round) {
  int line =
      round * lines_a_round + static_cast<int>(blockIdx.x * 32 + threadIdx.x);
  printf("%d of a hundred thousand and more lines, each of which is as long as "
         "three hundred characters, so that they are more than the answers "
         "that may wait for a program which takes them slowly: "
         "..............................................................."
         "...............................................................\n",
         line);
}

/// Counts how often each line stands in a file.
std::vector<int> count_lines(std::FILE* file) {
  std::vector<int> seen(rounds * lines_a_round);
  char text[512];
  while (std::fgets(text, sizeof text, file) != nullptr) {
    int line = -1;
    EXPECT(std::sscanf(text, "%d of a hundred", &line) == 1);
    EXPECT(line >= 0 && line < rounds * lines_a_round);
    ++seen[static_cast<std::size_t>(line)];
  }
  return seen;
}

} // namespace

int main() {
  int ends[2];
  EXPECT(pipe(ends) == 0);
  const int console = dup(STDOUT_FILENO);
  EXPECT(dup2(ends[1], STDOUT_FILENO) == STDOUT_FILENO);
  close(ends[1]);
  std::vector<int> seen;
  std::thread reader{[&] { seen = count_lines(fdopen(ends[0], "r")); }};

  CHECK(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 64 << 20));
  for (int round = 0; round < rounds; ++round)
    print_line<<<lines_a_round / 32, 32>>>(round);
  auto result = cudaDeviceSynchronize();
  std::fflush(stdout);
  // The last end of the pipe that somebody writes to.
  dup2(console, STDOUT_FILENO);
  reader.join();
  CHECK(result);

  int missing = 0;
  int repeated = 0;
  for (int times : seen) {
    missing += times == 0 ? 1 : 0;
    repeated += times > 1 ? 1 : 0;
  }
  std::printf("lines missing: %d, repeated: %d\n", missing, repeated);
  EXPECT(missing == 0 && repeated == 0);
  std::printf("ok\n");
}
