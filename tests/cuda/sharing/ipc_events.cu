// Two processes order their work by shared events, without a host that waits in
// between. Each continues the other's computation on one number.
#include "two_processes.hpp"

constexpr int rounds = 20;
constexpr int shared_flags = cudaEventDisableTiming | cudaEventInterprocess;

/// Does one step of the computation after a delay.
__global__ void step(unsigned* x, unsigned by, int delay) {
  volatile unsigned idle = 0;
  for (int i = 0; i < delay; ++i)
    idle = idle + 1;
  *x = *x * 3 + by;
}

static unsigned value_of(const unsigned* x, cudaStream_t s) {
  unsigned out = 0;
  CHECK(cudaMemcpyAsync(&out, x, sizeof(out), cudaMemcpyDeviceToHost, s));
  CHECK(cudaStreamSynchronize(s));
  return out;
}

static unsigned expected(int until) {
  unsigned x = 1;
  for (int i = 0; i < until; ++i)
    x = (x * 3 + 1) * 3 + 2;
  return x;
}

struct shared {
  cudaIpcMemHandle_t memory;
  cudaIpcEventHandle_t event;
};

static cudaEvent_t make_event() {
  cudaEvent_t out;
  CHECK(cudaEventCreateWithFlags(&out, shared_flags));
  return out;
}

static cudaIpcEventHandle_t handle_of(cudaEvent_t x) {
  cudaIpcEventHandle_t out;
  CHECK(cudaIpcGetEventHandle(&out, x));
  return out;
}

static cudaEvent_t open(cudaIpcEventHandle_t handle) {
  cudaEvent_t out;
  CHECK(cudaIpcOpenEventHandle(&out, handle));
  return out;
}

static void first(line other) {
  cudaEvent_t bad;
  EXPECT(cudaEventCreateWithFlags(&bad, cudaEventInterprocess) ==
         cudaErrorInvalidValue);
  (void)cudaGetLastError();
  CHECK(cudaEventCreateWithFlags(&bad, cudaEventDisableTiming));
  cudaIpcEventHandle_t none;
  EXPECT(cudaIpcGetEventHandle(&none, bad) != cudaSuccess);
  (void)cudaGetLastError();
  CHECK(cudaEventDestroy(bad));

  unsigned* x = nullptr;
  unsigned one = 1;
  CHECK(cudaMalloc(&x, sizeof(unsigned)));
  CHECK(cudaMemcpy(x, &one, sizeof(one), cudaMemcpyHostToDevice));
  cudaStream_t s;
  CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  auto mine = make_event();
  CHECK(cudaEventQuery(mine));
  shared what;
  CHECK(cudaIpcGetMemHandle(&what.memory, x));
  what.event = handle_of(mine);
  other.send(what);
  auto theirs = open(other.receive<cudaIpcEventHandle_t>());
  CHECK(cudaEventQuery(theirs)); // not recorded yet
  for (int i = 0; i < rounds; ++i) {
    step<<<1, 1, 0, s>>>(x, 1, 20000);
    CHECK(cudaEventRecord(mine, s));
    other.meet(); // The event is recorded, so the other one may wait for it.
    other.meet(); // The other one has recorded its own.
    CHECK(cudaStreamWaitEvent(s, theirs, 0));
  }
  EXPECT(value_of(x, s) == expected(rounds));

  // The host queries it while the work runs and when it is done.
  step<<<1, 1, 0, s>>>(x, 1, 2000000);
  CHECK(cudaEventRecord(mine, s));
  other.meet();
  other.meet();
  CHECK(cudaStreamSynchronize(s));
  CHECK(cudaEventQuery(mine));
  other.meet();
  CHECK(cudaEventDestroy(theirs));
  other.meet();
  CHECK(cudaEventDestroy(mine));
  CHECK(cudaStreamDestroy(s));
  CHECK(cudaFree(x));
}

static void second(line other) {
  auto what = other.receive<shared>();
  void* at = nullptr;
  CHECK(cudaIpcOpenMemHandle(&at, what.memory, cudaIpcMemLazyEnablePeerAccess));
  auto* x = static_cast<unsigned*>(at);
  auto theirs = open(what.event);
  auto mine = make_event();
  cudaStream_t s;
  CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  other.send(handle_of(mine));
  for (int i = 0; i < rounds; ++i) {
    other.meet();
    CHECK(cudaStreamWaitEvent(s, theirs, 0));
    step<<<1, 1, 0, s>>>(x, 2, 20000);
    CHECK(cudaEventRecord(mine, s));
    other.meet();
  }
  CHECK(cudaStreamSynchronize(s));
  CHECK(cudaEventQuery(mine));

  other.meet();
  auto now = cudaEventQuery(theirs);
  EXPECT(now == cudaSuccess || now == cudaErrorNotReady);
  (void)cudaGetLastError();
  CHECK(cudaEventSynchronize(theirs));
  CHECK(cudaEventQuery(theirs));
  EXPECT(value_of(x, s) == expected(rounds) * 3 + 1);
  other.meet();
  other.meet();
  CHECK(cudaEventDestroy(theirs));
  CHECK(cudaIpcCloseMemHandle(x));
  // An event of this process outlives the process that opened it.
  CHECK(cudaEventRecord(mine, s));
  CHECK(cudaEventSynchronize(mine));
  CHECK(cudaEventDestroy(mine));
  CHECK(cudaStreamDestroy(s));
  other.meet();
}

int main() {
  auto pid = fork();
  if (pid == 0)
    _exit(run_two(first, second) ? 0 : 1);
  int status = 0;
  if (waitpid(pid, &status, 0) != pid || status != 0)
    return 1;
  std::printf("ok\n");
}
