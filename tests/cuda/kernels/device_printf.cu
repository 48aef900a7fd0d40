// The output of kernels arrives on stdout when the host synchronises, or
// before.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>
#include <vector>

__global__ void speak(const char* word, double x) {
  if (threadIdx.x % 16 == 0)
    printf("thread %d of block %u: %s %.3f %5x|%c|%lld%%\n", threadIdx.x,
           blockIdx.x, word, x * threadIdx.x, threadIdx.x + 160u, 'A' + 1,
           -5000000000LL);
}

__global__ void plain() {
  printf("no arguments\n");
}

int main() {
  char* word;
  if (cudaMalloc(&word, 8) != cudaSuccess ||
      cudaMemcpy(word, "hello", 6, cudaMemcpyHostToDevice) != cudaSuccess)
    return 1;

  FILE* caught = tmpfile();
  fflush(stdout);
  int terminal = dup(1);
  dup2(fileno(caught), 1);
  speak<<<2, 32>>>(word, 0.125);
  cudaError_t status = cudaDeviceSynchronize();
  plain<<<1, 1>>>();
  if (status == cudaSuccess)
    status = cudaDeviceSynchronize();
  fflush(stdout);
  dup2(terminal, 1);
  if (status != cudaSuccess) {
    printf("%s\n", cudaGetErrorString(status));
    return 1;
  }

  std::vector<std::string> lines;
  rewind(caught);
  char buffer[256];
  while (fgets(buffer, sizeof buffer, caught))
    lines.push_back(buffer);
  if (lines.empty() || lines.back() != "no arguments\n") {
    printf("%zu lines, the last: %s", lines.size(),
           lines.empty() ? "none\n" : lines.back().c_str());
    return 1;
  }
  lines.pop_back();
  std::sort(lines.begin(), lines.end()); // blocks come in any order
  std::vector<std::string> want = {
      "thread 0 of block 0: hello 0.000    a0|B|-5000000000%\n",
      "thread 0 of block 1: hello 0.000    a0|B|-5000000000%\n",
      "thread 16 of block 0: hello 2.000    b0|B|-5000000000%\n",
      "thread 16 of block 1: hello 2.000    b0|B|-5000000000%\n",
  };
  if (lines != want) {
    for (auto& line : lines)
      printf("got: %s", line.c_str());
    return 1;
  }
  printf("ok\n");
}
