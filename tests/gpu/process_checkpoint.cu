// Checkpoints and restores a process by NVIDIA's driver
// (cuCheckpointProcess...), step by step.
//
//   process_checkpoint hold MIB FILE
//       uses MIB of memory, a device heap for its kernels' malloc, pinned
//       memory, streams and events until FILE exists, and then checks all of it
//   process_checkpoint PID STEP...
//       executes the steps lock, out, in, unlock or state one after the other,
//       and prints the result and the seconds of each
#include "checkpointed.cuh"

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <time.h>
#include <unistd.h>

// -- the program --------------------------------------------------------------

struct node {
  node* next;
  unsigned value;
};
__device__ node* head;

__global__ void grow(unsigned value) {
  auto* fresh = static_cast<node*>(malloc(sizeof(node)));
  fresh->next = head;
  fresh->value = value;
  head = fresh;
}

__global__ void sum_list(unsigned long long* to) {
  unsigned long long sum = 0;
  for (auto* x = head; x != nullptr; x = x->next)
    sum += x->value;
  *to = sum;
}

static int hold(size_t words, const char* end) {
  unsigned* memory = nullptr;
  unsigned long long *found = nullptr, *pinned = nullptr;
  cudaStream_t streams[2];
  cudaEvent_t done;
  check(cudaMalloc(&memory, words * sizeof(unsigned)), "cudaMalloc");
  check(cudaMalloc(&found, 2 * sizeof *found), "cudaMalloc");
  check(cudaMallocHost(&pinned, 2 * sizeof *pinned), "cudaMallocHost");
  check(cudaMemset(found, 0, 2 * sizeof *found), "cudaMemset");
  for (auto& x : streams)
    check(cudaStreamCreate(&x), "cudaStreamCreate");
  check(cudaEventCreate(&done), "cudaEventCreate");
  write_all<<<1024, 256>>>(memory, words);
  check(cudaDeviceSynchronize(), "write_all");
  unsigned long long wanted = 0;
  double longest = 0, last = now();
  unsigned rounds = 0;
  for (; access(end, F_OK) != 0; ++rounds) {
    grow<<<1, 1, 0, streams[0]>>>(rounds);
    wanted += rounds;
    sum_list<<<1, 1, 0, streams[0]>>>(found);
    check(cudaEventRecord(done, streams[0]), "cudaEventRecord");
    check(cudaStreamWaitEvent(streams[1], done), "cudaStreamWaitEvent");
    check(cudaMemcpyAsync(pinned, found, sizeof *found, cudaMemcpyDeviceToHost,
                          streams[1]),
          "cudaMemcpyAsync");
    check(cudaStreamSynchronize(streams[1]), "cudaStreamSynchronize");
    check(pinned[0] == wanted ? 0 : 1, "the list");
    auto at = now();
    longest = std::max(longest, at - last);
    last = at;
    timespec pause{0, 20'000'000}; // stands for other work of the program
    nanosleep(&pause, nullptr);
  }
  count_wrong<<<1024, 256>>>(memory, words, found + 1);
  check(cudaMemcpy(pinned, found + 1, sizeof *found, cudaMemcpyDeviceToHost),
        "count_wrong");
  std::printf("%s: %u rounds, longest %.2f s\n",
              pinned[0] == 0 ? "all is right" : "WRONG", rounds, longest);
  return pinned[0] == 0 ? 0 : 1;
}

// -- the process that checkpoints it ------------------------------------------

#define ENTRY(name) entry<decltype(name)>(#name)

static int step(int pid, const std::string& what) {
  auto began = now();
  int code = 1;
  CUprocessState state{};
  if (what == "lock")
    code = ENTRY(cuCheckpointProcessLock)(pid, nullptr);
  else if (what == "out")
    code = ENTRY(cuCheckpointProcessCheckpoint)(pid, nullptr);
  else if (what == "in")
    code = ENTRY(cuCheckpointProcessRestore)(pid, nullptr);
  else if (what == "unlock")
    code = ENTRY(cuCheckpointProcessUnlock)(pid, nullptr);
  else if (what == "state")
    code = ENTRY(cuCheckpointProcessGetState)(pid, &state);
  std::printf("%s: result %d, state %d, %.3f s\n", what.c_str(), code,
              static_cast<int>(state), now() - began);
  std::fflush(stdout);
  return code;
}

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "hold") == 0)
    return hold(std::strtoull(argv[2], nullptr, 10) << 18, argv[3]);
  if (argc < 3) {
    std::fprintf(stderr, "usage: process_checkpoint hold MIB FILE | "
                         "process_checkpoint PID STEP...\n");
    return 2;
  }
  for (int i = 2; i < argc; ++i)
    if (step(std::atoi(argv[1]), argv[i]) != 0)
      return 1;
  return 0;
}
