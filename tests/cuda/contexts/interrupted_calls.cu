// A timer interrupts the program's system calls thousands of times a second,
// with a handler that does not have them restarted.
// nvcc: -lcuda
#include "../check.hpp"

#include <cuda.h>
#include <cuda_runtime.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <sys/time.h>
#include <unistd.h>

std::atomic<int> interrupts{0};

void on_alarm(int) {
  ++interrupts;
}

void interrupt_from_now_on() {
  struct sigaction what = {};
  what.sa_handler = on_alarm;
  EXPECT(sigaction(SIGALRM, &what, nullptr) == 0);
  itimerval often{{0, 200}, {0, 200}};
  EXPECT(setitimer(ITIMER_REAL, &often, nullptr) == 0);
}

// Returns when the timer has interrupted the process so many times more.
void await_interrupts(int more) {
  for (auto until = interrupts + more; interrupts < until;)
    std::this_thread::yield();
}

__global__ void print_lines(int lines) {
  for (int i = 0; i < lines; ++i)
    printf("line %05d of the kernel's text\n", i);
}

void waits() {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaEventCreateWithFlags(&event, cudaEventBlockingSync));
  for (auto wait : {0, 1, 2}) {
    std::atomic<bool> ran{false};
    CHECK(cudaLaunchHostFunc(
        stream,
        [](void* x) {
          await_interrupts(20);
          *static_cast<std::atomic<bool>*>(x) = true;
        },
        &ran));
    CHECK(cudaEventRecord(event, stream));
    if (wait == 0)
      CHECK(cudaStreamSynchronize(stream));
    else if (wait == 1)
      CHECK(cudaEventSynchronize(event));
    else
      CHECK(cudaDeviceSynchronize());
    EXPECT(ran);
  }
  CHECK(cudaEventDestroy(event));
  CHECK(cudaStreamDestroy(stream));
}

void long_copies() {
  constexpr size_t bytes = 48 << 20;
  std::vector<unsigned char> from(bytes), to(bytes);
  for (size_t i = 0; i < bytes; ++i)
    from[i] = static_cast<unsigned char>(i * 7 + i / 4096);
  void* device = nullptr;
  CHECK(cudaMalloc(&device, bytes));
  CHECK(cudaMemcpy(device, from.data(), bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(to.data(), device, bytes, cudaMemcpyDeviceToHost));
  EXPECT(from == to);
  CHECK(cudaFree(device));
}

// A kernel prints more than a pipe holds, so writing it is interrupted.
void printed_text() {
  constexpr int lines = 4000;
  int ends[2];
  EXPECT(pipe(ends) == 0);
  std::fflush(stdout);
  auto real = dup(STDOUT_FILENO);
  dup2(ends[1], STDOUT_FILENO);
  std::string text;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread reader{[&] {
    char part[4096];
    for (ssize_t n; (n = read(ends[0], part, sizeof(part))) > 0;) {
      text.append(part, n);
      await_interrupts(1);
    }
  }};
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  print_lines<<<1, 1>>>(lines);
  auto done = cudaDeviceSynchronize();
  std::fflush(stdout);
  dup2(real, STDOUT_FILENO);
  close(real);
  close(ends[1]);
  reader.join();
  close(ends[0]);
  CHECK(done);
  std::string expected;
  for (int i = 0; i < lines; ++i) {
    char line[64];
    std::snprintf(line, sizeof(line), "line %05d of the kernel's text\n", i);
    expected += line;
  }
  EXPECT(text == expected);
}

// Memory stays as long as a descriptor for it, however often that is checked.
void exported_memory() {
  CUmemAllocationProp what = {};
  what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  what.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  what.location.id = 0;
  what.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle memory = 0, again = 0;
  CHECK(cuMemCreate(&memory, 2 << 20, &what, 0));
  int file = -1;
  CHECK(cuMemExportToShareableHandle(
      &file, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CHECK(cuMemRelease(memory));
  for (auto until = interrupts + 200; interrupts < until;) {
    size_t unused = 0, total = 0;
    CHECK(cuMemGetInfo(&unused, &total));
  }
  CHECK(cuMemImportFromShareableHandle(
      &again, reinterpret_cast<void*>(static_cast<intptr_t>(file)),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  CHECK(cuMemRelease(again));
  close(file);
}

int main() {
  interrupt_from_now_on();
  CHECK(cudaFree(nullptr));
  waits();
  long_copies();
  printed_text();
  exported_memory();
  std::puts("ok");
}
