// The moments at which the text of kernels is written out (CUDA C++ Programming
// Guide, "Formatted Output"), beside the calls that wait for the device.
// nvcc: -lcuda
#include "../check.hpp"

#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

__global__ void say() {
  std::printf("kernel\n");
}

static void reset() {
  say<<<1, 1>>>();
  CHECK(cudaDeviceReset());
}

static void reset_of_own_stream() {
  cudaStream_t s;
  CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  say<<<1, 1, 0, s>>>();
  CHECK(cudaDeviceReset());
}

static void destroyed_context() {
  CUcontext context;
  CHECK(cuInit(0));
  CHECK(cuCtxCreate(&context, nullptr, 0, 0));
  say<<<1, 1>>>();
  CHECK(cuCtxDestroy(context));
}

static void awaited_after_query() {
  cudaEvent_t e;
  CHECK(cudaEventCreate(&e));
  say<<<1, 1>>>();
  CHECK(cudaEventRecord(e));
  while (cudaEventQuery(e) == cudaErrorNotReady)
    std::this_thread::yield();
  CHECK(cudaEventSynchronize(e));
}

static void host(const char* what) {
  std::printf("%s\n", what);
}

static void callback() {
  say<<<1, 1>>>();
  CHECK(cudaStreamAddCallback(
      nullptr, [](cudaStream_t, cudaError_t, void*) { host("callback"); },
      nullptr, 0));
  CHECK(cudaDeviceSynchronize());
}

static void host_function() {
  say<<<1, 1>>>();
  CHECK(cudaLaunchHostFunc(
      nullptr, [](void*) { host("callback"); }, nullptr));
  CHECK(cudaDeviceSynchronize());
}

static void synchronised() {
  say<<<1, 1>>>();
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
}

/// Runs `body` in a child, and returns what it printed and then "after".
static std::string printed_by(void (*body)()) {
  char name[] = "/tmp/printf_moments_XXXXXX";
  int file = mkstemp(name);
  EXPECT(file >= 0 && unlink(name) == 0);
  std::fflush(stdout);
  auto child = fork();
  if (child == 0) {
    EXPECT(dup2(file, STDOUT_FILENO) == STDOUT_FILENO);
    body();
    host("after");
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  std::string out(200, '\0');
  auto bytes = pread(file, out.data(), out.size(), 0);
  EXPECT(bytes >= 0 && close(file) == 0);
  out.resize(static_cast<std::size_t>(bytes));
  return out;
}

int main() {
  EXPECT(printed_by(synchronised) == "kernel\nafter\n");
  EXPECT(printed_by(reset) == "kernel\nafter\n");
  EXPECT(printed_by(reset_of_own_stream) == "kernel\nafter\n");
  EXPECT(printed_by(destroyed_context) == "kernel\nafter\n");
  EXPECT(printed_by(awaited_after_query) == "kernel\nafter\n");
  EXPECT(printed_by(callback) == "kernel\ncallback\nafter\n");
  EXPECT(printed_by(host_function) == "kernel\ncallback\nafter\n");
  std::puts("ok");
}
