// Keeps a GPU busy with one kind of work until it is stopped, and prints how
// much it has done: lines of milliseconds since 1970 and a count, at most every
// 10 ms. It enqueues so much work that a late wake-up of the program does not
// leave the device idle.
//
//   load KIND BLOCKS LOOPS [SECONDS]
//
// After SECONDS or SIGUSR1 it has no more work, but does not end.
//
//   kernel  kernels of so many blocks of so many loops
//   ex      the same by cuLaunchKernelEx, with an attribute
//   graph   the same, eight to a graph
//   huge    kernels that take a hundred times as long
//   tiny    many empty kernels
//   copy    copies in all directions, and memsets
//   mixed   a bit of each
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <unistd.h>

namespace {

constexpr unsigned threads = 128;
constexpr std::size_t chunk = 1 << 20; // bytes
constexpr int graph_nodes = 8;

__global__ void turn(unsigned* out, unsigned loops) {
  unsigned x = threadIdx.x + blockIdx.x;
  for (unsigned i = 0; i < loops; ++i)
    x = x * 1664525u + 1013904223u;
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

__global__ void nothing() {}

long long now() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch())
      .count();
}

void check(cudaError_t x) {
  if (x == cudaSuccess)
    return;
  std::fprintf(stderr, "load: %s\n", cudaGetErrorString(x));
  std::exit(1);
}

struct load {
  unsigned blocks = 0;
  unsigned loops = 0;
  cudaStream_t stream = nullptr;
  unsigned* out = nullptr;
  char* there = nullptr; // two chunks
  char* here = nullptr;  // pinned, two chunks
  cudaGraphExec_t graph = nullptr;

  load(unsigned some_blocks, unsigned some_loops)
      : blocks(some_blocks), loops(some_loops) {
    check(cudaStreamCreate(&stream));
    check(cudaMalloc(&out, blocks * threads * sizeof(unsigned)));
    check(cudaMalloc(&there, 2 * chunk));
    check(cudaMallocHost(&here, 2 * chunk));
  }

  void kernel(unsigned times = 1) {
    turn<<<blocks, threads, 0, stream>>>(out, times * loops);
  }

  void kernel_ex() {
    cudaLaunchAttribute priority{};
    priority.id = cudaLaunchAttributePriority;
    cudaLaunchConfig_t how{};
    how.gridDim = dim3(blocks);
    how.blockDim = dim3(threads);
    how.stream = stream;
    how.attrs = &priority;
    how.numAttrs = 1;
    check(cudaLaunchKernelEx(&how, turn, out, loops));
  }

  void kernels_by_graph() {
    if (graph == nullptr) {
      cudaGraph_t what = nullptr;
      check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
      for (int i = 0; i < graph_nodes; ++i)
        kernel();
      check(cudaStreamEndCapture(stream, &what));
      check(cudaGraphInstantiate(&graph, what, 0));
    }
    check(cudaGraphLaunch(graph, stream));
  }

  void tiny() { nothing<<<1, 32, 0, stream>>>(); }

  void copies(std::size_t bytes = chunk) {
    check(cudaMemcpyAsync(there, here, bytes, cudaMemcpyHostToDevice, stream));
    check(cudaMemcpyAsync(there + chunk, there, bytes, cudaMemcpyDeviceToDevice,
                          stream));
    check(cudaMemsetAsync(there, 1, bytes, stream));
    check(cudaMemcpyAsync(here + chunk, there + chunk, bytes,
                          cudaMemcpyDeviceToHost, stream));
  }
};

/// Describes one kind of work, and how it is counted.
struct kind {
  std::function<void(load&)> piece;
  unsigned together; // pieces that are counted together
  unsigned depth;    // such groups in flight
};

const std::map<std::string, kind> kinds{
    {"kernel", {[](load& x) { x.kernel(); }, 4, 16}},
    {"ex", {[](load& x) { x.kernel_ex(); }, 4, 16}},
    {"graph", {[](load& x) { x.kernels_by_graph(); }, 1, 8}},
    {"huge", {[](load& x) { x.kernel(100); }, 1, 3}},
    {"tiny", {[](load& x) { x.tiny(); }, 64, 16}},
    {"copy", {[](load& x) { x.copies(); }, 1, 8}},
    {"mixed",
     {[](load& x) {
        x.kernel();
        x.copies(chunk / 8);
        for (int i = 0; i < 4; ++i)
          x.tiny();
        x.kernel_ex();
      },
      2, 16}},
};

volatile std::sig_atomic_t no_more = 0;

void run(const kind& what, load& on, long long until) {
  constexpr unsigned deepest = 16;
  cudaEvent_t ends[deepest];
  for (auto& x : ends)
    check(cudaEventCreateWithFlags(&x, cudaEventDisableTiming));
  long long done = 0, told = 0;
  for (unsigned n = 0; now() < until && no_more == 0; ++n) {
    auto& oldest = ends[n % what.depth];
    check(cudaEventSynchronize(oldest));
    if (n >= what.depth)
      done += what.together;
    if (now() - told >= 10) {
      told = now();
      std::printf("%lld %lld\n", told, done);
    }
    for (unsigned i = 0; i < what.together; ++i)
      what.piece(on);
    check(cudaGetLastError());
    check(cudaEventRecord(oldest, on.stream));
  }
  check(cudaDeviceSynchronize());
  // This is the final count.
  std::printf("%lld %lld\n", now(),
              done + static_cast<long long>(what.depth) * what.together);
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 4 || argc > 5 || kinds.count(argv[1]) == 0)
    return 2;
  // The reader gets whole lines, even if this process is killed.
  std::setvbuf(stdout, nullptr, _IOLBF, 256);
  std::signal(SIGUSR1, [](int) { no_more = 1; });
  load on(static_cast<unsigned>(std::atoi(argv[2])),
          static_cast<unsigned>(std::atoi(argv[3])));
  auto seconds = argc == 5 ? std::atof(argv[4]) : 1e9;
  run(kinds.at(argv[1]), on, now() + static_cast<long long>(seconds * 1000));
  for (;;)
    pause();
}
