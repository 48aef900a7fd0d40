// Host functions run in the stream's order: the next copy reads what they
// write, and they read what the last copy wrote. More work can be enqueued
// behind a slow function than a GPU's queue holds.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#define CHECK(call)                                                            \
  if (cudaError_t e = (call)) {                                                \
    std::printf("%s: %s\n", #call, cudaGetErrorString(e));                     \
    std::exit(1);                                                              \
  }

constexpr int n = 4096;
constexpr int rounds = 20;

struct state {
  int* in;
  int* out;
  int filled = 0;
  int verified = 0;
  bool right = true;
};

void fill(void* p) {
  auto* s = static_cast<state*>(p);
  for (int i = 0; i < n; ++i)
    s->in[i] = i + s->filled;
  ++s->filled;
}

void verify(void* p) {
  auto* s = static_cast<state*>(p);
  for (int i = 0; i < n; ++i)
    s->right = s->right && s->out[i] == 2 * (i + s->verified);
  ++s->verified;
}

__global__ void twice(int* data) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  data[i] *= 2;
}

void CUDART_CB on_done(cudaStream_t, cudaError_t status, void* p) {
  *static_cast<int*>(p) = status == cudaSuccess ? 1 : 2;
}

/// Counts the launches that are enqueued behind a host function that waits for
/// them.
struct backlog {
  std::mutex lock;
  std::condition_variable grown;
  int enqueued = 0;
};

constexpr int launches = 3000;

/// Returns when all launches are enqueued, or after a while: a GPU whose queue
/// is full holds the program back until this function is done.
void wait_for_backlog(void* p) {
  auto* s = static_cast<backlog*>(p);
  std::unique_lock guard{s->lock};
  s->grown.wait_for(guard, std::chrono::milliseconds{500},
                    [&] { return s->enqueued == launches; });
}

__global__ void count(int* counter) {
  ++*counter;
}

/// Returns whether all launches behind the function have run.
bool enqueues_far_ahead(cudaStream_t stream, int* dev) {
  backlog behind;
  CHECK(cudaMemsetAsync(dev, 0, sizeof(int), stream));
  CHECK(cudaLaunchHostFunc(stream, wait_for_backlog, &behind));
  for (int i = 0; i < launches; ++i) {
    count<<<1, 1, 0, stream>>>(dev);
    std::lock_guard guard{behind.lock};
    ++behind.enqueued;
    behind.grown.notify_one();
  }
  int counted = 0;
  CHECK(cudaMemcpyAsync(&counted, dev, sizeof(int), cudaMemcpyDeviceToHost,
                        stream));
  CHECK(cudaStreamSynchronize(stream));
  if (counted != launches)
    std::printf("counted %d of %d launches\n", counted, launches);
  return counted == launches;
}

int main() {
  state s;
  CHECK(cudaMallocHost(&s.in, n * sizeof(int)));
  CHECK(cudaMallocHost(&s.out, n * sizeof(int)));
  int* dev;
  CHECK(cudaMalloc(&dev, n * sizeof(int)));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  for (int round = 0; round < rounds; ++round) {
    CHECK(cudaLaunchHostFunc(stream, fill, &s));
    CHECK(cudaMemcpyAsync(dev, s.in, n * sizeof(int), cudaMemcpyHostToDevice,
                          stream));
    twice<<<n / 256, 256, 0, stream>>>(dev);
    CHECK(cudaMemcpyAsync(s.out, dev, n * sizeof(int), cudaMemcpyDeviceToHost,
                          stream));
    CHECK(cudaLaunchHostFunc(stream, verify, &s));
  }
  int called = 0;
  CHECK(cudaStreamAddCallback(stream, on_done, &called, 0));
  CHECK(cudaStreamSynchronize(stream));
  if (!s.right || s.filled != rounds || s.verified != rounds || called != 1) {
    std::printf("right %d, filled %d, verified %d, called %d\n", s.right,
                s.filled, s.verified, called);
    return 1;
  }
  if (!enqueues_far_ahead(stream, dev))
    return 1;
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(dev));
  CHECK(cudaFreeHost(s.in));
  CHECK(cudaFreeHost(s.out));
  std::puts("ok");
}
