// Measures single CUDA calls, and prints lines `NAME VALUE UNIT`. Run it
// natively and on a vGPU, on the same machine, to compare. With the argument
// `waits`, it measures only launches and waits for them, and with `copies` only
// these and copies.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

using seconds = std::chrono::duration<double>;

static void check(cudaError_t x, int line) {
  if (x == cudaSuccess)
    return;
  printf("line %d: %s\n", line, cudaGetErrorName(x));
  exit(1);
}
#define CHECK(call) check(call, __LINE__)

static double now() {
  return seconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Returns the median, over `rounds`, of the time of one of `n` calls, in
/// seconds.
static double cost(int rounds, int n, const std::function<void()>& before,
                   const std::function<void(int)>& call) {
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    before();
    double begin = now();
    for (int k = 0; k < n; ++k)
      call(k);
    times.push_back((now() - begin) / n);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

static void say_us(const char* name, double time) {
  printf("%s %.3f us\n", name, time * 1e6);
  fflush(stdout);
}
static void say_gbs(const char* name, size_t bytes, double time) {
  printf("%s %.3f GB/s\n", name, static_cast<double>(bytes) / time * 1e-9);
  fflush(stdout);
}

__global__ void nothing(int*, int*, int) {}
__global__ void increment(int* p) {
  ++*p;
}

static void CUDART_CB host_function(void* p) {
  ++*static_cast<volatile int*>(p);
}

static void settle() {
  CHECK(cudaDeviceSynchronize());
}
static void none() {}

static void launches(int* d) {
  auto launch = [&](int) { nothing<<<1, 32>>>(d, d, 1); };
  say_us("launch", cost(20, 200, settle, launch));
  settle();
  say_us("launch_rate_1000", cost(9, 1, settle, [&](int) {
                               for (int i = 0; i < 1000; ++i)
                                 launch(i);
                               settle();
                             }) / 1000);
  say_us("launch_sync", cost(20, 100, settle, [&](int i) {
           launch(i);
           settle();
         }));
  say_us("sync_of_nothing", cost(20, 1000, settle, [](int) { settle(); }));
  cudaStream_t s;
  CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  say_us("launch_sync_stream", cost(20, 100, settle, [&](int) {
           nothing<<<1, 32, 0, s>>>(d, d, 1);
           CHECK(cudaStreamSynchronize(s));
         }));
  static int called;
  say_us("host_function_sync", cost(9, 50, settle, [&](int) {
           CHECK(cudaLaunchHostFunc(s, host_function, &called));
           CHECK(cudaStreamSynchronize(s));
         }));
  CHECK(cudaStreamDestroy(s));
}

static void events(int* d) {
  cudaEvent_t e;
  CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  say_us("event_record",
         cost(20, 200, settle, [&](int) { CHECK(cudaEventRecord(e)); }));
  settle();
  CHECK(cudaEventQuery(e));
  say_us("event_query_done",
         cost(20, 1000, none, [&](int) { CHECK(cudaEventQuery(e)); }));
  say_us("record_query_until_done", cost(20, 50, settle, [&](int) {
           nothing<<<1, 32>>>(d, d, 1);
           CHECK(cudaEventRecord(e));
           while (cudaEventQuery(e) == cudaErrorNotReady)
             continue;
         }));
  cudaStream_t s;
  CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  say_us("record_wait", cost(20, 100, settle, [&](int) {
           CHECK(cudaEventRecord(e));
           CHECK(cudaStreamWaitEvent(s, e, 0));
         }));
  settle();
  CHECK(cudaStreamDestroy(s));
  CHECK(cudaEventDestroy(e));
}

static void copies() {
  constexpr size_t large = size_t{256} << 20;
  char* d;
  CHECK(cudaMalloc(&d, large));
  char* pageable = static_cast<char*>(malloc(large));
  memset(pageable, 1, large);
  char* pinned;
  CHECK(cudaMallocHost(&pinned, large));
  memset(pinned, 1, large);
  struct kind {
    const char* name;
    char* host;
  };
  for (auto k : {kind{"pageable", pageable}, kind{"pinned", pinned}}) {
    char name[64];
    auto named = [&](const char* what) {
      snprintf(name, sizeof name, "%s_%s", what, k.name);
      return name;
    };
    for (size_t bytes : {size_t{4}, size_t{64} << 10, size_t{1} << 20}) {
      int n = bytes > 100000 ? 20 : 100;
      char what[32];
      snprintf(what, sizeof what, "h2d_%zu", bytes);
      say_us(named(what), cost(9, n, settle, [&](int) {
               CHECK(cudaMemcpy(d, k.host, bytes, cudaMemcpyHostToDevice));
             }));
      snprintf(what, sizeof what, "d2h_%zu", bytes);
      say_us(named(what), cost(9, n, settle, [&](int) {
               CHECK(cudaMemcpy(k.host, d, bytes, cudaMemcpyDeviceToHost));
             }));
    }
    say_gbs(named("h2d_256MiB"), large, cost(3, 1, settle, [&](int) {
              CHECK(cudaMemcpy(d, k.host, large, cudaMemcpyHostToDevice));
              settle();
            }));
    say_gbs(named("d2h_256MiB"), large, cost(3, 1, settle, [&](int) {
              CHECK(cudaMemcpy(k.host, d, large, cudaMemcpyDeviceToHost));
            }));
  }
  say_us("h2d_async_4096_pinned", cost(9, 100, settle, [&](int) {
           CHECK(cudaMemcpyAsync(d, pinned, 4096, cudaMemcpyHostToDevice));
         }));
  say_gbs("d2d_128MiB", large / 2, cost(5, 1, settle, [&](int) {
            CHECK(cudaMemcpyAsync(d, d + large / 2, large / 2,
                                  cudaMemcpyDeviceToDevice));
            settle();
          }));
  say_us("memset_async_4096", cost(9, 100, settle, [&](int) {
           CHECK(cudaMemsetAsync(d, 0, 4096));
         }));
  CHECK(cudaFreeHost(pinned));
  free(pageable);
  CHECK(cudaFree(d));
}

static void allocations() {
  struct size {
    const char* name;
    size_t bytes;
  };
  for (auto x : {size{"malloc_free_4096", 4096},
                 size{"malloc_free_1MiB", size_t{1} << 20},
                 size{"malloc_free_64MiB", size_t{64} << 20},
                 size{"malloc_free_1GiB", size_t{1} << 30}})
    say_us(x.name, cost(9, 10, settle, [&](int) {
             void* p;
             CHECK(cudaMalloc(&p, x.bytes));
             CHECK(cudaFree(p));
           }));
  std::vector<void*> many(1000);
  say_us("malloc_1000_of_4096", cost(3, 1, settle, [&](int) {
                                  for (auto& p : many)
                                    CHECK(cudaMalloc(&p, 4096));
                                  settle();
                                  for (auto& p : many)
                                    CHECK(cudaFree(p));
                                  settle();
                                }) / 1000);
  say_us("malloc_host_1MiB", cost(5, 5, settle, [&](int) {
           void* p;
           CHECK(cudaMallocHost(&p, 1 << 20));
           CHECK(cudaFreeHost(p));
         }));
}

int main(int argc, char** argv) {
  double begin = now();
  int* d;
  CHECK(cudaMalloc(&d, 4096));
  say_us("first_call", now() - begin);
  begin = now();
  increment<<<1, 1>>>(d);
  settle();
  say_us("first_launch", now() - begin);
  // This is the one-element operation and .item() of a training loop.
  int value;
  say_us("increment_read", cost(20, 100, settle, [&](int) {
           increment<<<1, 1>>>(d);
           CHECK(cudaMemcpy(&value, d, 4, cudaMemcpyDeviceToHost));
         }));
  launches(d);
  const char* only = argc > 1 ? argv[1] : "";
  if (strcmp(only, "waits") == 0)
    return 0;
  if (strcmp(only, "copies") == 0) {
    copies();
    return 0;
  }
  events(d);
  copies();
  allocations();
}
