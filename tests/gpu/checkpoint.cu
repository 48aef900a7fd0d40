// Measures how long NVIDIA's driver takes to checkpoint and restore a process,
// as a reference for moving a vGPU.
//
//   checkpoint MIB
//
// A child process writes MIB of memory. The driver locks it, moves its memory
// to the host, restores and unlocks it, and the child checks its memory.
// Prints, in seconds: `out S`, `in S`, and `stopped S` from the lock to the
// unlock.
#include "checkpointed.cuh"

#include <cuda.h>
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

/// Reports on `ready` that its memory is written. After a byte on `go`, reports
/// whether the memory is unchanged.
static int be_moved(size_t words, int ready, int go) {
  unsigned* memory = nullptr;
  unsigned long long *wrong = nullptr, found = 0;
  check(cudaMalloc(&memory, words * sizeof(unsigned)), "cudaMalloc");
  check(cudaMalloc(&wrong, sizeof found), "cudaMalloc");
  check(cudaMemset(wrong, 0, sizeof found), "cudaMemset");
  write_all<<<1024, 256>>>(memory, words);
  check(cudaDeviceSynchronize(), "write_all");
  char byte = 1;
  check(write(ready, &byte, 1) != 1, "write");
  check(read(go, &byte, 1) != 1, "read");
  count_wrong<<<1024, 256>>>(memory, words, wrong);
  check(cudaMemcpy(&found, wrong, sizeof found, cudaMemcpyDeviceToHost),
        "count_wrong");
  return found == 0 ? 0 : 1;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: checkpoint MIB\n");
    return 2;
  }
  size_t words = std::strtoull(argv[1], nullptr, 10) << 18;
  int ready[2], go[2];
  check(pipe(ready), "pipe");
  check(pipe(go), "pipe");
  // The fork must come before either process uses CUDA.
  pid_t child = fork();
  if (child == 0)
    _exit(be_moved(words, ready[1], go[0]));
  char byte = 1;
  close(ready[1]);
  if (read(ready[0], &byte, 1) != 1)
    return 1;
  auto lock =
      entry<decltype(cuCheckpointProcessLock)>("cuCheckpointProcessLock");
  auto out = entry<decltype(cuCheckpointProcessCheckpoint)>(
      "cuCheckpointProcessCheckpoint");
  auto in =
      entry<decltype(cuCheckpointProcessRestore)>("cuCheckpointProcessRestore");
  auto unlock =
      entry<decltype(cuCheckpointProcessUnlock)>("cuCheckpointProcessUnlock");
  double begun = now();
  check(lock(child, nullptr), "cuCheckpointProcessLock");
  double locked = now();
  check(out(child, nullptr), "cuCheckpointProcessCheckpoint");
  double left = now();
  check(in(child, nullptr), "cuCheckpointProcessRestore");
  double back = now();
  check(unlock(child, nullptr), "cuCheckpointProcessUnlock");
  double done = now();
  check(write(go[1], &byte, 1) != 1, "write");
  int status = 0;
  check(waitpid(child, &status, 0) != child, "waitpid");
  std::printf("out %.2f\nin %.2f\nstopped %.2f\n", left - locked, back - left,
              done - begun);
  return status == 0 ? 0 : 1;
}
