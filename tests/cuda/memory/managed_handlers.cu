// A program sets its own SIGSEGV handler, before and after it first allocates
// managed memory. The handler gets the program's faults, and none of managed
// memory.
#include "../check.hpp"

#include <cuda_runtime.h>

#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

__global__ void add(int* x, int by) {
  x[threadIdx.x] += by;
}

sigjmp_buf back;
volatile sig_atomic_t first_seen = 0, second_seen = 0;
volatile void* faulted = nullptr;

void first(int, siginfo_t* info, void*) {
  ++first_seen;
  faulted = info->si_addr;
  siglongjmp(back, 1);
}

void second(int) {
  ++second_seen;
  siglongjmp(back, 1);
}

void provoke(volatile int* at) {
  if (sigsetjmp(back, 1) == 0)
    *at = 1;
}

int main() {
  struct sigaction mine = {};
  mine.sa_sigaction = first;
  mine.sa_flags = SA_SIGINFO;
  EXPECT(sigaction(SIGSEGV, &mine, nullptr) == 0);
  auto* closed = static_cast<int*>(
      mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  int* x = nullptr;
  CHECK(cudaMallocManaged(&x, 32 * sizeof(int)));
  for (int i = 0; i < 32; ++i)
    x[i] = i;
  add<<<1, 32>>>(x, 1);
  CHECK(cudaDeviceSynchronize());
  EXPECT(x[31] == 32 && first_seen == 0);
  provoke(closed);
  EXPECT(first_seen == 1 && faulted == closed);
  provoke(nullptr);
  EXPECT(first_seen == 2 && faulted == nullptr);

  struct sigaction other = {};
  other.sa_handler = second;
  EXPECT(sigaction(SIGSEGV, &other, nullptr) == 0);
  add<<<1, 32>>>(x, 1);
  CHECK(cudaDeviceSynchronize());
  EXPECT(x[0] == 2 && second_seen == 0);
  provoke(closed);
  EXPECT(second_seen == 1 && first_seen == 2);

  // Without a handler, a fault ends the program as usual.
  add<<<1, 32>>>(x, 1);
  CHECK(cudaDeviceSynchronize());
  std::fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    *static_cast<volatile int*>(closed) = 1;
    _exit(0);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  EXPECT(x[0] == 3);
  CHECK(cudaFree(x));
  std::printf("ok\n");
}
