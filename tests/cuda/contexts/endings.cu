// Programs end in many ways while work and a host function are under way. Each
// ends in its own process, with the status that it chose.
// nvcc: -std=c++20 -lcuda
#include "../check.hpp"

#include <cuda_runtime.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

__global__ void add(int* x, int by) {
  x[threadIdx.x] += by;
}

std::atomic<bool> begun{false}, may_end{false};

void stay(void*) {
  begun = true;
  begun.notify_all();
  may_end.wait(false);
}

// Leaves the stream with a host function that runs, and work behind it.
void begin_work() {
  int* x = nullptr;
  CHECK(cudaMallocManaged(&x, 32 * sizeof(int)));
  add<<<1, 32>>>(x, 1);
  CHECK(cudaLaunchHostFunc(nullptr, stay, nullptr));
  add<<<1, 32>>>(x, 1);
  CHECK(cudaLaunchHostFunc(nullptr, stay, nullptr));
  begun.wait(false);
}

// Lets the function end, so that it does so while the program exits.
void let_it_end() {
  may_end = true;
  may_end.notify_all();
}

template <class Body>
int status_of(const Body& body) {
  std::fflush(stdout);
  auto child = fork();
  if (child == 0) {
    body();
    _exit(99);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  return status;
}

bool ended_with(int status, int code) {
  return WIFEXITED(status) && WEXITSTATUS(status) == code;
}

bool ended_by(int status, int signal) {
  return WIFSIGNALED(status) && WTERMSIG(status) == signal;
}

void exits() {
  auto status = status_of([] {
    begin_work();
    std::exit(7);
  });
  EXPECT(ended_with(status, 7));
  status = status_of([] {
    std::atexit(let_it_end);
    begin_work();
    std::exit(7);
  });
  EXPECT(ended_with(status, 7));
  status = status_of([] {
    begin_work();
    std::atexit(let_it_end);
    std::exit(7);
  });
  EXPECT(ended_with(status, 7));
  status = status_of([] {
    begin_work();
    _exit(8);
  });
  EXPECT(ended_with(status, 8));
  status = status_of([] {
    begin_work();
    std::thread{[] { let_it_end(); }}.detach();
    std::quick_exit(9);
  });
  EXPECT(ended_with(status, 9));
}

void two_at_once() {
  auto status = status_of([] {
    begin_work();
    std::thread{[] { _exit(7); }}.detach();
    std::exit(7);
  });
  EXPECT(ended_with(status, 7));
  status = status_of([] {
    begin_work();
    CUcontext context = nullptr;
    CHECK(cuCtxGetCurrent(&context));
    std::atomic<bool> waits{false};
    // The thread waits in the driver, which it may enter while the program
    // exits. The runtime may not be entered then.
    std::thread waiting{[&, context] {
      cuCtxSetCurrent(context);
      waits = true;
      waits.notify_all();
      cuCtxSynchronize();
      for (;;)
        pause();
    }};
    waits.wait(false);
    std::exit(7);
  });
  EXPECT(ended_with(status, 7));
}

void signals() {
  for (auto number : {SIGTERM, SIGKILL, SIGINT, SIGALRM}) {
    auto status = status_of([number] {
      begin_work();
      raise(number);
    });
    EXPECT(ended_by(status, number));
  }
}

void becomes_another() {
  auto status = status_of([] {
    begin_work();
    execl("/bin/sh", "sh", "-c", "exit 5", nullptr);
  });
  EXPECT(ended_with(status, 5));
}

// A program goes on after its forked children have ended.
void children_end() {
  auto status = status_of([] {
    int* x = nullptr;
    CHECK(cudaMallocManaged(&x, 32 * sizeof(int)));
    std::memset(x, 0, 32 * sizeof(int));
    for (int i = 0; i < 4; ++i) {
      add<<<1, 32>>>(x, 1);
      auto child = status_of([i] {
        if (i == 0)
          std::exit(3);
        if (i == 1)
          _exit(3);
        if (i == 2)
          execl("/bin/sh", "sh", "-c", "exit 3", nullptr);
        raise(SIGKILL);
      });
      EXPECT(i < 3 ? ended_with(child, 3) : ended_by(child, SIGKILL));
      CHECK(cudaDeviceSynchronize());
      EXPECT(x[0] == i + 1 && x[31] == i + 1);
    }
    std::exit(0);
  });
  EXPECT(ended_with(status, 0));
}

// The driver stays when the program has opened and closed it too.
void closes_the_driver() {
  auto status = status_of([] {
    int *x = nullptr, out = 0;
    CHECK(cudaMalloc(&x, 32 * sizeof(int)));
    CHECK(cudaMemset(x, 0, 32 * sizeof(int)));
    auto* driver = dlopen("libcuda.so.1", RTLD_NOW);
    EXPECT(driver != nullptr);
    dlclose(driver);
    add<<<1, 32>>>(x, 4);
    CHECK(cudaMemcpy(&out, x, sizeof(int), cudaMemcpyDeviceToHost));
    EXPECT(out == 4);
    std::exit(0);
  });
  EXPECT(ended_with(status, 0));
}

int main() {
  exits();
  two_at_once();
  signals();
  becomes_another();
  children_end();
  closes_the_driver();
  std::puts("ok");
}
