// A failed assertion in a kernel is reported on stderr and by every call that
// follows.
#undef NDEBUG
#include <cassert>
#include <cstdio>
#include <cstring>
#include <unistd.h>

__global__ void careful(int limit) {
  assert(static_cast<int>(threadIdx.x) < limit);
}

int main() {
  careful<<<1, 32>>>(32);
  if (cudaDeviceSynchronize() != cudaSuccess) {
    printf("an assertion that holds failed\n");
    return 1;
  }
  FILE* caught = tmpfile();
  int terminal = dup(2);
  dup2(fileno(caught), 2);
  careful<<<1, 32>>>(31);
  cudaError_t sync = cudaDeviceSynchronize();
  fflush(stderr);
  dup2(terminal, 2);
  char text[4096] = {};
  rewind(caught);
  fread(text, 1, sizeof text - 1, caught);
  if (sync != cudaErrorAssert || cudaDeviceSynchronize() != cudaErrorAssert) {
    printf("synchronising gives %s\n", cudaGetErrorName(sync));
    return 1;
  }
  if (!strstr(text, "threadIdx.x) < limit` failed") ||
      !strstr(text, "thread: [31,0,0]")) {
    printf("on stderr: '%s'\n", text);
    return 1;
  }
  printf("ok\n");
}
