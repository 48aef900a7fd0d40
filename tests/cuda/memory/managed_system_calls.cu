// Managed memory that the device has is handed to system calls, and touched by
// threads that block all signals.
#include "../check.hpp"

#include <cuda_runtime.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

constexpr int count = 1 << 18;
constexpr size_t bytes = count * sizeof(int);

__global__ void fill(int* x, int by) {
  for (int i = threadIdx.x; i < count; i += blockDim.x)
    x[i] = i * 3 + by;
}

__global__ void compare(const int* x, int by, int* wrong) {
  for (int i = threadIdx.x; i < count; i += blockDim.x)
    if (x[i] != i * 3 + by)
      atomicAdd(wrong, 1);
}

void fill_on_device(int* x, int by) {
  fill<<<1, 256>>>(x, by);
  CHECK(cudaDeviceSynchronize());
}

int wrong_on_device(const int* x, int by) {
  int *wrong = nullptr, out = 0;
  CHECK(cudaMalloc(&wrong, sizeof(int)));
  CHECK(cudaMemset(wrong, 0, sizeof(int)));
  compare<<<1, 256>>>(x, by, wrong);
  CHECK(cudaMemcpy(&out, wrong, sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(wrong));
  return out;
}

// Whether this process may have faults of system calls served (userfaultfd(2)).
bool kernel_permits() {
  auto fd = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC));
  if (fd < 0)
    fd = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
  if (fd >= 0)
    close(fd);
  return fd >= 0;
}

void files(int* x, int* y) {
  char path[] = "/tmp/managed_system_calls.XXXXXX";
  auto file = mkstemp(path);
  EXPECT(file >= 0);
  unlink(path);
  fill_on_device(x, 1);
  fill_on_device(y, 2);
  EXPECT(write(file, x, bytes) == ssize_t(bytes));
  EXPECT(pread(file, y, bytes, 0) == ssize_t(bytes));
  EXPECT(y[0] == 1 && y[count - 1] == (count - 1) * 3 + 1);
  EXPECT(wrong_on_device(y, 1) == 0);
  // A page that was only read so far is written by a system call.
  fill_on_device(y, 5);
  EXPECT(y[0] == 5);
  EXPECT(pread(file, y, 4096, 0) == 4096);
  EXPECT(y[0] == 1 && y[1023] == 1023 * 3 + 1 && y[1024] == 1024 * 3 + 5);
  close(file);
}

void sockets(int* x, int* y) {
  int ends[2];
  EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  fill_on_device(x, 11);
  fill_on_device(y, 12);
  iovec parts[2] = {{x + 100, 8000}, {x + 50000, 4000}};
  EXPECT(writev(ends[0], parts, 2) == 12000);
  size_t got = 0;
  while (got < 12000) {
    auto n = recv(ends[1], reinterpret_cast<char*>(y) + got, 12000 - got, 0);
    EXPECT(n > 0);
    got += n;
  }
  EXPECT(y[0] == 311 && y[2000] == 150011 && y[3000] == 9012);
  close(ends[0]);
  close(ends[1]);
}

// Several threads touch the same pages at once, with all signals blocked.
void threads_without_signals(int* x) {
  sigset_t all, before;
  sigfillset(&all);
  for (int round = 0; round < 10; ++round) {
    fill_on_device(x, round);
    std::vector<int> wrong(4);
    std::vector<std::thread> threads;
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([x, round, t, &wrong] {
        for (int i = 0; i < count; ++i)
          wrong[t] += x[i] != i * 3 + round;
      });
    for (auto& t : threads)
      t.join();
    // Each thread writes a part, which the others have opened for reading.
    threads.clear();
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([x, round, t] {
        for (int i = t; i < count; i += 4)
          x[i] = i * 3 + round + 1000;
      });
    for (auto& t : threads)
      t.join();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    EXPECT(wrong == std::vector<int>(4));
    EXPECT(wrong_on_device(x, round + 1000) == 0);
  }
}

int main() {
  int *x = nullptr, *y = nullptr;
  CHECK(cudaMallocManaged(&x, bytes));
  CHECK(cudaMallocManaged(&y, bytes));
  fill_on_device(x, 0);
  errno = 0;
  int ends[2];
  EXPECT(pipe(ends) == 0);
  if (write(ends[1], x, 4) != 4 && errno == EFAULT && !kernel_permits()) {
    std::puts("skipped: the kernel does not permit userfaultfd\nok");
    return 0;
  }
  files(x, y);
  sockets(x, y);
  threads_without_signals(x);
  CHECK(cudaFree(x));
  CHECK(cudaFree(y));
  std::puts("ok");
}
