// Graphs with conditional nodes: if, if and else, while, switch, and nested
// ones, by values that kernels set or by default values.
// nvcc: -lcuda
#include "conditional_graph.hpp"

#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

__global__ void set(handle h, const unsigned* value) {
  cudaGraphSetConditional(h, *value);
}
__global__ void set_now(handle h, unsigned value) {
  cudaGraphSetConditional(h, value);
}
__global__ void add(unsigned* word, unsigned value) {
  *word += value;
}
/// Ends a loop when *left is 0.
__global__ void step(handle h, unsigned* left, unsigned* done) {
  ++*done;
  cudaGraphSetConditional(h, --*left);
}
__global__ void square(float* x, int n) {
  auto i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    x[i] *= x[i];
}
/// Does one step of the Collatz sequence. Sets whether it continues, and
/// whether the next number is odd.
__global__ void look(handle loop, handle odd, const unsigned long long* x,
                     unsigned* steps) {
  if (*x != 1)
    ++*steps;
  cudaGraphSetConditional(loop, *x != 1);
  cudaGraphSetConditional(odd, *x % 2);
}
__global__ void halve(unsigned long long* x) {
  *x /= 2;
}
__global__ void triple(unsigned long long* x) {
  *x = 3 * *x + 1;
}

namespace {

template <class T>
struct words {
  T* at = nullptr;
  explicit words(std::size_t n) {
    CHECK(cudaMalloc(&at, n * sizeof(T)));
    CHECK(cudaMemset(at, 0, n * sizeof(T)));
  }
  ~words() { cudaFree(at); }
  T get(int i = 0) const {
    T x{};
    CHECK(cudaMemcpy(&x, at + i, sizeof x, cudaMemcpyDeviceToHost));
    return x;
  }
  void put(T x, int i = 0) {
    CHECK(cudaMemcpy(at + i, &x, sizeof x, cudaMemcpyHostToDevice));
  }
};

struct executable {
  cudaGraphExec_t it = nullptr;
  explicit executable(const graph& of) {
    CHECK(cudaGraphInstantiate(&it, of.it, 0));
  }
  ~executable() { cudaGraphExecDestroy(it); }
  void run(cudaStream_t in = nullptr) {
    CHECK(cudaGraphLaunch(it, in));
    CHECK(cudaStreamSynchronize(in));
  }
};

template <class... Args>
cudaGraphNode_t kernel(cudaGraph_t in, std::vector<cudaGraphNode_t> after,
                       void (*f)(Args...), Args... args) {
  void* all[] = {&args...};
  cudaGraphNodeParams p{};
  p.type = cudaGraphNodeTypeKernel;
  p.kernel.func = reinterpret_cast<void*>(f);
  p.kernel.gridDim = p.kernel.blockDim = dim3(1);
  p.kernel.kernelParams = all;
  cudaGraphNode_t node{};
  CHECK(cudaGraphAddNode(&node, in, after.data(), nullptr, after.size(), &p));
  return node;
}

struct conditional {
  cudaGraphNode_t node{};
  std::vector<cudaGraph_t> body;
  conditional(cudaGraph_t in, std::vector<cudaGraphNode_t> after, handle h,
              cudaGraphConditionalNodeType type, unsigned bodies = 1) {
    cudaGraphNodeParams p{};
    p.type = cudaGraphNodeTypeConditional;
    p.conditional.handle = h;
    p.conditional.type = type;
    p.conditional.size = bodies;
    CHECK(cudaGraphAddNode(&node, in, after.data(), nullptr, after.size(), &p));
    body.assign(p.conditional.phGraph_out, p.conditional.phGraph_out + bodies);
  }
};

void if_and_else() {
  words<unsigned> value(1), did(2);
  graph g;
  auto h = g.condition();
  auto before = kernel(g.it, {}, set, h, (const unsigned*)value.at);
  conditional c(g.it, {before}, h, cudaGraphCondTypeIf, 2);
  kernel(c.body[0], {}, add, did.at, 1u);
  kernel(c.body[1], {}, add, did.at, 0x100u);
  kernel(g.it, {c.node}, add, did.at + 1, 1u);
  executable e(g);
  for (unsigned v : {1u, 0u, 7u, 0u, 0u}) {
    value.put(v);
    e.run();
    std::printf("if %u: %x, behind it %u\n", v, did.get(), did.get(1));
  }
  EXPECT(did.get() == 0x302);
  EXPECT(did.get(1) == 5);
}

void loop() {
  words<unsigned> left(1), done(1);
  graph g;
  auto h = g.condition(1, cudaGraphCondAssignDefault);
  conditional c(g.it, {}, h, cudaGraphCondTypeWhile);
  kernel(c.body[0], {}, step, h, left.at, done.at);
  executable e(g);
  for (unsigned n : {10u, 1u, 25u}) {
    left.put(n);
    e.run();
    std::printf("while %u: %u in all\n", n, done.get());
  }
  EXPECT(done.get() == 36);
}

void many_ways() {
  words<unsigned> value(1), did(1);
  graph g;
  auto h = g.condition();
  auto before = kernel(g.it, {}, set, h, (const unsigned*)value.at);
  conditional c(g.it, {before}, h, cudaGraphCondTypeSwitch, 4);
  for (unsigned i = 0; i < 4; ++i)
    kernel(c.body[i], {}, add, did.at, 1u << (8 * i));
  executable e(g);
  for (unsigned v : {2u, 0u, 3u, 4u, 1u, 2u, 1000u}) {
    value.put(v);
    e.run();
    std::printf("switch %u: %x\n", v, did.get());
  }
  EXPECT(did.get() == 0x01020101);
}

void one_in_another() {
  words<unsigned long long> x(1);
  words<unsigned> steps(1);
  graph g;
  auto loop = g.condition(), odd = g.condition();
  auto begin = kernel(g.it, {}, look, loop, odd,
                      (const unsigned long long*)x.at, steps.at);
  conditional outer(g.it, {begin}, loop, cudaGraphCondTypeWhile);
  conditional inner(outer.body[0], {}, odd, cudaGraphCondTypeIf, 2);
  kernel(inner.body[0], {}, triple, x.at);
  kernel(inner.body[1], {}, halve, x.at);
  kernel(outer.body[0], {inner.node}, look, loop, odd,
         (const unsigned long long*)x.at, steps.at);
  executable e(g);
  const unsigned expected[] = {0, 111, 8, 16};
  int i = 0;
  for (unsigned long long n : {1ull, 27ull, 6ull, 7ull}) {
    x.put(n);
    steps.put(0);
    e.run();
    std::printf("collatz %llu: %u steps to %llu\n", n, steps.get(), x.get());
    EXPECT(steps.get() == expected[i++]);
  }
}

void defaults() {
  words<unsigned> did(2);
  graph g;
  auto on = g.condition(1, cudaGraphCondAssignDefault);
  auto off = g.condition(0, cudaGraphCondAssignDefault);
  conditional a(g.it, {}, on, cudaGraphCondTypeIf);
  conditional b(g.it, {}, off, cudaGraphCondTypeIf);
  kernel(a.body[0], {}, add, did.at, 1u);
  kernel(b.body[0], {}, add, did.at + 1, 1u);
  // A later value does not last to the next launch.
  kernel(g.it, {a.node, b.node}, set_now, on, 0u);
  kernel(g.it, {a.node, b.node}, set_now, off, 1u);
  executable e(g);
  for (int i = 0; i < 3; ++i)
    e.run();
  std::printf("defaults: %u and %u\n", did.get(), did.get(1));
  EXPECT(did.get() == 3 && did.get(1) == 0);
}

void other_nodes() {
  constexpr int n = 1000;
  std::vector<float> in(n), out(n);
  for (int i = 0; i < n; ++i)
    in[i] = 1 + i % 3 * 0.25f;
  words<float> x(n), copy(n);
  words<unsigned> left(2);
  CHECK(cudaMemcpy(x.at, in.data(), n * 4, cudaMemcpyHostToDevice));
  graph g;
  auto h = g.condition(1, cudaGraphCondAssignDefault);
  cudaGraphNode_t filled, squared, copied;
  cudaMemsetParams m{};
  m.dst = left.at;
  m.elementSize = 4;
  m.value = 3;
  m.width = m.height = 1;
  CHECK(cudaGraphAddMemsetNode(&filled, g.it, nullptr, 0, &m));
  conditional c(g.it, {filled}, h, cudaGraphCondTypeWhile);
  float* data = x.at;
  int count = n;
  void* args[] = {&data, &count};
  cudaKernelNodeParams k{};
  k.func = (void*)square;
  k.gridDim = dim3((n + 127) / 128);
  k.blockDim = dim3(128);
  k.kernelParams = args;
  CHECK(cudaGraphAddKernelNode(&squared, c.body[0], nullptr, 0, &k));
  CHECK(cudaGraphAddMemcpyNode1D(&copied, c.body[0], &squared, 1, copy.at, x.at,
                                 n * 4, cudaMemcpyDeviceToDevice));
  kernel(c.body[0], {copied}, step, h, left.at, left.at + 1);
  executable e(g);
  for (int i = 0; i < 2; ++i)
    e.run();
  CHECK(cudaMemcpy(out.data(), copy.at, n * 4, cudaMemcpyDeviceToHost));
  double sum = 0;
  for (int i = 0; i < n; ++i) {
    auto want = in[i];
    for (int j = 0; j < 6; ++j)
      want *= want;
    EXPECT(out[i] == want);
    sum += out[i];
  }
  std::printf("squared six times: %.9g, %u rounds\n", sum, left.get(1));
  EXPECT(left.get(1) == 6);
}

/// A graph with conditional nodes may contain operations that a body may not.
void among_others() {
  words<unsigned> result(1);
  graph g;
  auto h = g.condition(2, cudaGraphCondAssignDefault);
  cudaMemAllocNodeParams wanted{};
  wanted.poolProps.allocType = cudaMemAllocationTypePinned;
  wanted.poolProps.location.type = cudaMemLocationTypeDevice;
  wanted.bytesize = 4096;
  cudaGraphNode_t made, filled, copied, called, freed;
  CHECK(cudaGraphAddMemAllocNode(&made, g.it, nullptr, 0, &wanted));
  cudaMemsetParams m{};
  m.dst = wanted.dptr;
  m.elementSize = 4;
  m.value = 40;
  m.width = m.height = 1;
  CHECK(cudaGraphAddMemsetNode(&filled, g.it, &made, 1, &m));
  conditional c(g.it, {filled}, h, cudaGraphCondTypeSwitch, 3);
  kernel(c.body[2], {}, add, static_cast<unsigned*>(wanted.dptr), 2u);
  CHECK(cudaGraphAddMemcpyNode1D(&copied, g.it, &c.node, 1, result.at,
                                 wanted.dptr, 4, cudaMemcpyDeviceToDevice));
  int calls = 0;
  cudaHostNodeParams host{};
  host.fn = [](void* x) { ++*static_cast<int*>(x); };
  host.userData = &calls;
  CHECK(cudaGraphAddHostNode(&called, g.it, &copied, 1, &host));
  CHECK(cudaGraphAddMemFreeNode(&freed, g.it, &called, 1, wanted.dptr));
  executable e(g);
  for (int i = 0; i < 3; ++i) {
    CHECK(cudaMemset(result.at, 0, 4));
    e.run();
    EXPECT(result.get() == 42);
  }
  std::printf("among others: %u, called %d times\n", result.get(), calls);
  EXPECT(calls == 3);
}

/// Adds `from` to *left, and steps until it is 0.
void count_down(graph& in, unsigned from, unsigned* left, unsigned* done) {
  auto h = in.condition(1, cudaGraphCondAssignDefault);
  auto begin = kernel(in.it, {}, add, left, from);
  conditional c(in.it, {begin}, h, cudaGraphCondTypeWhile);
  kernel(c.body[0], {}, step, h, left, done);
}

/// Launches do not block, and later work comes after all of them.
void in_order() {
  words<unsigned> left(1), done(1), seen(8);
  cudaStream_t one, two;
  CHECK(cudaStreamCreate(&one));
  CHECK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
  graph g;
  count_down(g, 5u, left.at, done.at);
  executable e(g);
  for (int i = 0; i < 8; ++i) {
    auto in = i % 2 ? two : one;
    CHECK(cudaGraphLaunch(e.it, in));
    CHECK(
        cudaMemcpyAsync(seen.at + i, done.at, 4, cudaMemcpyDeviceToDevice, in));
  }
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 8; ++i)
    EXPECT(seen.get(i) >= 5u * (i + 1));
  std::printf("eight launches in two streams: %u\n", done.get());
  EXPECT(done.get() == 40);
  CHECK(cudaGraphLaunch(e.it, one));
  CHECK(cudaFree(nullptr));
  CHECK(cudaStreamSynchronize(one));
  EXPECT(done.get() == 45);
  CHECK(cudaStreamDestroy(one));
  CHECK(cudaStreamDestroy(two));
}

/// Makes more streams wait for a launch than a device has channels.
void awaited_by_many() {
  constexpr int n = 40;
  words<unsigned> left(1), done(1), after(n);
  std::vector<cudaStream_t> streams(n);
  for (auto& s : streams)
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  cudaEvent_t ended;
  CHECK(cudaEventCreateWithFlags(&ended, cudaEventDisableTiming));
  graph g;
  count_down(g, 9u, left.at, done.at);
  executable e(g);
  for (int round = 0; round < 3; ++round) {
    CHECK(cudaGraphLaunch(e.it, streams[0]));
    CHECK(cudaEventRecord(ended, streams[0]));
    for (int i = 1; i < n; ++i) {
      CHECK(cudaStreamWaitEvent(streams[i], ended));
      CHECK(cudaMemcpyAsync(after.at + i, done.at, 4, cudaMemcpyDeviceToDevice,
                            streams[i]));
    }
  }
  CHECK(cudaDeviceSynchronize());
  for (int i = 1; i < n; ++i)
    EXPECT(after.get(i) == 27);
  std::printf("awaited by %d streams: %u\n", n - 1, done.get());
  CHECK(cudaEventDestroy(ended));
  for (auto s : streams)
    CHECK(cudaStreamDestroy(s));
}

void captured() {
  words<unsigned> did(1), left(2);
  cudaStream_t s, t;
  CHECK(cudaStreamCreate(&s));
  CHECK(cudaStreamCreate(&t));
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  add<<<1, 1, 0, s>>>(did.at, 1);
  cudaStreamCaptureStatus status{};
  cudaGraph_t g{};
  const cudaGraphNode_t* after{};
  std::size_t count = 0;
  CHECK(cudaStreamGetCaptureInfo(s, &status, nullptr, &g, &after, nullptr,
                                 &count));
  handle h{};
  CHECK(cudaGraphConditionalHandleCreate(&h, g, 3, cudaGraphCondAssignDefault));
  conditional c(g, {after, after + count}, h, cudaGraphCondTypeWhile);
  CHECK(cudaStreamUpdateCaptureDependencies(s, &c.node, nullptr, 1,
                                            cudaStreamSetCaptureDependencies));
  CHECK(cudaStreamBeginCaptureToGraph(t, c.body[0], nullptr, nullptr, 0,
                                      cudaStreamCaptureModeRelaxed));
  add<<<1, 1, 0, t>>>(did.at, 0x100);
  step<<<1, 1, 0, t>>>(h, left.at, left.at + 1);
  cudaGraph_t body{};
  CHECK(cudaStreamEndCapture(t, &body));
  EXPECT(body == c.body[0]);
  add<<<1, 1, 0, s>>>(did.at, 0x10000);
  CHECK(cudaStreamEndCapture(s, &g));
  cudaGraphExec_t e{};
  CHECK(cudaGraphInstantiate(&e, g, 0));
  for (unsigned n : {4u, 2u}) {
    left.put(n);
    CHECK(cudaGraphLaunch(e, s));
    CHECK(cudaStreamSynchronize(s));
    std::printf("captured, %u rounds: %x\n", n, did.get());
  }
  EXPECT(did.get() == 0x20602);
  CHECK(cudaGraphExecDestroy(e));
  CHECK(cudaGraphDestroy(g));
  CHECK(cudaStreamDestroy(s));
  CHECK(cudaStreamDestroy(t));
}

void updates() {
  words<unsigned> did(1);
  auto make = [&](graph& g, unsigned value, unsigned flags, unsigned adds,
                  cudaGraphConditionalNodeType type, unsigned bodies) {
    conditional c(g.it, {}, g.condition(value, flags), type, bodies);
    kernel(c.body[0], {}, add, did.at, adds);
  };
  graph g;
  make(g, 1, 1, 1, cudaGraphCondTypeIf, 1);
  executable e(g);
  e.run();
  auto update = [&](unsigned value, unsigned adds,
                    cudaGraphConditionalNodeType type, unsigned bodies) {
    graph from;
    make(from, value, 1, adds, type, bodies);
    CUgraphExecUpdateResultInfo info{};
    auto code = cuGraphExecUpdate(e.it, from.it, &info);
    e.run();
    std::printf("updated: %s, did %x\n", error_name(code), did.get());
    return code;
  };
  EXPECT(update(1, 0x100, cudaGraphCondTypeIf, 1) == CUDA_SUCCESS);
  EXPECT(did.get() == 0x101);
  EXPECT(update(0, 0x100, cudaGraphCondTypeIf, 1) == CUDA_SUCCESS);
  EXPECT(did.get() == 0x101);
  EXPECT(update(1, 0x100, cudaGraphCondTypeIf, 2) ==
         CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT(update(1, 0x10000, cudaGraphCondTypeSwitch, 1) ==
         CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT(did.get() == 0x101);
}

} // namespace

int main() {
  if_and_else();
  loop();
  many_ways();
  one_in_another();
  defaults();
  other_nodes();
  among_others();
  in_order();
  awaited_by_many();
  captured();
  updates();
  std::printf("ok\n");
}
