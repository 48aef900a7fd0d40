// Runs graphs with conditional nodes in two streams at once: loops whose length
// kernels decide, and in them one of two branches that depends on the data. The
// result of a round depends on each choice and on their order. Prints one line
// per round.
// usage: conditions [ROUNDS [MILLISECONDS BETWEEN THEM]]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <thread>

#define CHECK(call)                                                            \
  do {                                                                         \
    if (int check_code = static_cast<int>(call)) {                             \
      std::printf("%s: error %d\n", #call, check_code);                        \
      std::exit(1);                                                            \
    }                                                                          \
  } while (0)

struct state {
  unsigned sum, left, odd, even;
};

__global__ void begin(state* x, unsigned rounds) {
  x->left = rounds;
}
__global__ void look(state* x, cudaGraphConditionalHandle way) {
  cudaGraphSetConditional(way, x->sum >> 7 & 1);
}
__global__ void one_way(state* x) {
  ++x->odd;
  x->sum = x->sum * 1664525u + 1013904223u;
}
__global__ void other_way(state* x) {
  ++x->even;
  x->sum = (x->sum ^ x->sum >> 5) * 22695477u + 1u;
}
__global__ void step(state* x, cudaGraphConditionalHandle loop) {
  cudaGraphSetConditional(loop, --x->left);
}

template <class... Args>
cudaGraphNode_t kernel(cudaGraph_t in, cudaGraphNode_t after,
                       void (*f)(Args...), Args... args) {
  void* all[] = {&args...};
  cudaKernelNodeParams p{};
  p.func = reinterpret_cast<void*>(f);
  p.gridDim = p.blockDim = dim3(1);
  p.kernelParams = all;
  cudaGraphNode_t node{};
  CHECK(cudaGraphAddKernelNode(&node, in, &after, after ? 1 : 0, &p));
  return node;
}

cudaGraphNode_t choose(cudaGraph_t in, cudaGraphNode_t after,
                       cudaGraphConditionalHandle by,
                       cudaGraphConditionalNodeType type, cudaGraph_t* bodies,
                       unsigned count) {
  cudaGraphNodeParams p{};
  p.type = cudaGraphNodeTypeConditional;
  p.conditional.handle = by;
  p.conditional.type = type;
  p.conditional.size = count;
  cudaGraphNode_t node{};
  CHECK(cudaGraphAddNode(&node, in, &after, nullptr, after ? 1 : 0, &p));
  for (unsigned i = 0; i < count; ++i)
    bodies[i] = p.conditional.phGraph_out[i];
  return node;
}

cudaGraphExec_t make(state* x, unsigned rounds) {
  cudaGraph_t g{}, body{}, ways[2];
  cudaGraphConditionalHandle loop{}, way{};
  CHECK(cudaGraphCreate(&g, 0));
  CHECK(cudaGraphConditionalHandleCreate(&loop, g, 1,
                                         cudaGraphCondAssignDefault));
  CHECK(cudaGraphConditionalHandleCreate(&way, g, 0, 0));
  choose(g, kernel(g, nullptr, begin, x, rounds), loop, cudaGraphCondTypeWhile,
         &body, 1);
  auto chosen = choose(body, kernel(body, nullptr, look, x, way), way,
                       cudaGraphCondTypeIf, ways, 2);
  kernel(ways[0], nullptr, one_way, x);
  kernel(ways[1], nullptr, other_way, x);
  kernel(body, chosen, step, x, loop);
  cudaGraphExec_t out{};
  CHECK(cudaGraphInstantiate(&out, g, 0));
  CHECK(cudaGraphDestroy(g));
  return out;
}

int main(int argc, char** argv) {
  auto rounds = argc > 1 ? std::atoi(argv[1]) : 12;
  auto pause = std::chrono::milliseconds(argc > 2 ? std::atoi(argv[2]) : 0);
  state *x, now[2];
  CHECK(cudaMalloc(&x, sizeof now));
  CHECK(cudaMemset(x, 0, sizeof now));
  cudaGraphExec_t graphs[] = {make(x, 20), make(x + 1, 31)};
  cudaStream_t streams[2];
  for (auto& s : streams)
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  for (int round = 1; round <= rounds; ++round) {
    for (int i = 0; i < 6; ++i)
      CHECK(cudaGraphLaunch(graphs[i % 2], streams[i % 2]));
    std::this_thread::sleep_for(pause);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(now, x, sizeof now, cudaMemcpyDeviceToHost));
    std::printf("round %d: %08x %u %u, %08x %u %u\n", round, now[0].sum,
                now[0].odd, now[0].even, now[1].sum, now[1].odd, now[1].even);
    std::fflush(stdout);
  }
}
