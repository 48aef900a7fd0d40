// Continuously writes to its memory, and prints the longest time for which its
// calls were not executed.
//
//   rewriter MIB FILE [PERCENT]
//
// It has MIB of memory and rewrites PERCENT (10) of it each second, until FILE
// exists. It prints `ready`, a line for each tenth of the memory, and at the
// end the longest time between two completed calls, in milliseconds. Each piece
// of its memory must then hold the last value written to it.
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <unistd.h>

static void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess)
    return;
  std::fprintf(stderr, "rewriter: %s: %s (%s)\n", what,
               cudaGetErrorString(code), cudaGetErrorName(code));
  std::exit(9);
}

constexpr unsigned piece_words = 1 << 20; // of 4 bytes
constexpr unsigned threads = 256, words_a_thread = 16;
constexpr unsigned blocks = piece_words / threads / words_a_thread;

__device__ unsigned word_of(unsigned piece, unsigned place, unsigned turn) {
  return (place + 1) * 2654435761u ^ (piece * 40503u + turn * 0x9e3779b9u);
}

__global__ void rewrite(uint4* to, unsigned piece, unsigned turn) {
  unsigned first = blockIdx.x * threads + threadIdx.x;
  for (unsigned i = 0; i < words_a_thread / 4; ++i) {
    unsigned at = first + i * blocks * threads;
    unsigned x = word_of(piece, at, turn);
    to[at] = make_uint4(x, ~x, x ^ 0x5555u, x + 1);
  }
}

__global__ void compare(const uint4* from, unsigned piece, unsigned turn,
                        unsigned* wrong) {
  unsigned first = blockIdx.x * threads + threadIdx.x;
  for (unsigned i = 0; i < words_a_thread / 4; ++i) {
    unsigned at = first + i * blocks * threads;
    unsigned x = word_of(piece, at, turn);
    uint4 got = from[at];
    if (got.x != x || got.y != ~x || got.z != (x ^ 0x5555u) || got.w != x + 1)
      atomicAdd(wrong, 1);
  }
}

__global__ void touch(unsigned* count) {
  ++*count;
}

using steady = std::chrono::steady_clock;

static double since(steady::time_point when) {
  return std::chrono::duration<double>(steady::now() - when).count();
}

int main(int argc, char** argv) {
  unsigned mebibytes = argc > 1 ? std::atoi(argv[1]) : 256;
  const char* end = argc > 2 ? argv[2] : "end";
  double percent = argc > 3 ? std::atof(argv[3]) : 10;
  unsigned pieces = mebibytes / (piece_words >> 18);
  unsigned *memory, *count, *wrong;
  check(cudaMalloc(&memory, size_t{pieces} * piece_words * 4), "cudaMalloc");
  check(cudaMalloc(&count, 2 * sizeof(unsigned)), "cudaMalloc");
  check(cudaMemset(count, 0, 2 * sizeof(unsigned)), "cudaMemset");
  wrong = count + 1;
  std::vector<unsigned> turns(pieces, 1);
  auto at = [&](unsigned piece) {
    return reinterpret_cast<uint4*>(memory + size_t{piece} * piece_words);
  };
  for (unsigned i = 0; i < pieces; ++i)
    rewrite<<<blocks, threads>>>(at(i), i, 1);
  check(cudaDeviceSynchronize(), "the first contents");
  std::printf("ready\n");
  std::fflush(stdout);

  auto began = steady::now();
  auto last = began;
  double longest = 0, sum = 0;
  unsigned written = 0, calls = 0;
  for (; calls % 64 != 0 || access(end, F_OK) != 0; ++calls) {
    if (written < since(began) * percent / 100 * pieces) {
      unsigned piece = written++ % pieces;
      rewrite<<<blocks, threads>>>(at(piece), piece, ++turns[piece]);
      if (written % (pieces / 10 + 1) == 0) {
        std::printf("%u MiB\n", written * 4);
        std::fflush(stdout);
      }
    }
    touch<<<1, 1>>>(count);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    double gap = since(last);
    longest = std::max(longest, gap);
    sum += gap;
    last = steady::now();
  }
  for (unsigned i = 0; i < pieces; ++i)
    compare<<<blocks, threads>>>(at(i), i, turns[i], wrong);
  unsigned got[2];
  check(cudaMemcpy(got, count, sizeof got, cudaMemcpyDeviceToHost), "the end");
  if (got[0] != calls || got[1] != 0) {
    std::fprintf(stderr, "rewriter: %u calls of %u, %u places are wrong\n",
                 got[0], calls, got[1]);
    return 7;
  }
  std::printf("%u calls, %u MiB written\n", calls, written * 4);
  std::printf("longest %.1f\n", longest * 1000);
  return 0;
}
