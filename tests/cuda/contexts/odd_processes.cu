// Programs whose processes are unusual: no environment, no standard streams, no
// working directory, small stacks, low limits, daemons. Each case is a process
// of its own, which is odd before its first CUDA call.
// nvcc: -lcuda
#include "../check.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

__managed__ int rounds = 2;

__global__ void add(int* to, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    to[i] += rounds * i;
}

// Uses device, pinned and managed memory.
static void work() {
  constexpr int n = 100000;
  int *managed, *device, *pinned;
  CHECK(cudaMallocManaged(&managed, n * sizeof(int)));
  CHECK(cudaMalloc(&device, n * sizeof(int)));
  CHECK(cudaMallocHost(&pinned, n * sizeof(int)));
  for (int i = 0; i < n; ++i)
    managed[i] = pinned[i] = i;
  CHECK(cudaMemcpy(device, pinned, n * sizeof(int), cudaMemcpyHostToDevice));
  add<<<(n + 255) / 256, 256>>>(managed, n);
  add<<<(n + 255) / 256, 256>>>(device, n);
  CHECK(cudaMemcpy(pinned, device, n * sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < n; ++i)
    EXPECT(managed[i] == 3 * i && pinned[i] == 3 * i);
  CHECK(cudaFree(managed));
  CHECK(cudaFree(device));
  CHECK(cudaFreeHost(pinned));
}

static void cleared() {
  EXPECT(clearenv() == 0);
  work();
}

static void cleared_and_set() {
  EXPECT(clearenv() == 0 && setenv("PATH", "/bin", 1) == 0);
  work();
}

static void closed() {
  for (int fd : {0, 1, 2})
    close(fd);
  // The driver's own files may take these numbers.
  work();
  _exit(0);
}

static void nowhere() {
  char name[] = "/tmp/odd_processes_XXXXXX";
  EXPECT(mkdtemp(name) != nullptr && chdir(name) == 0 && rmdir(name) == 0);
  EXPECT(unsetenv("HOME") == 0);
  work();
}

static void* in_thread(void*) {
  work();
  return nullptr;
}

static void small_stack() {
  pthread_attr_t how;
  pthread_t thread;
  EXPECT(pthread_attr_init(&how) == 0);
  EXPECT(pthread_attr_setstacksize(&how, 96 << 10) == 0);
  EXPECT(pthread_create(&thread, &how, in_thread, nullptr) == 0);
  EXPECT(pthread_join(thread, nullptr) == 0);
}

static void many_threads() {
  std::vector<std::thread> all;
  for (int i = 0; i < 64; ++i)
    all.emplace_back([] {
      int *p, one = 1, two = 0;
      CHECK(cudaMalloc(&p, sizeof(int)));
      CHECK(cudaMemcpy(p, &one, sizeof one, cudaMemcpyHostToDevice));
      CHECK(cudaMemcpy(&two, p, sizeof two, cudaMemcpyDeviceToHost));
      EXPECT(two == 1);
      CHECK(cudaFree(p));
    });
  for (auto& x : all)
    x.join();
}

// Uses the device until it is cancelled, which may happen at any call.
static void* until_cancelled(void* begun) {
  int *p, value = 0;
  CHECK(cudaMalloc(&p, sizeof(int)));
  for (;;) {
    CHECK(cudaMemcpy(p, &value, sizeof value, cudaMemcpyHostToDevice));
    add<<<1, 1>>>(p, 1);
    CHECK(cudaDeviceSynchronize());
    ++*static_cast<std::atomic<int>*>(begun);
    pthread_testcancel();
  }
}

static void cancelled_threads() {
  for (int i = 0; i < 10; ++i) {
    std::atomic<int> rounds_done{0};
    pthread_t thread;
    EXPECT(pthread_create(&thread, nullptr, until_cancelled, &rounds_done) ==
           0);
    while (rounds_done < 5)
      std::this_thread::yield();
    void* result = nullptr;
    EXPECT(pthread_cancel(thread) == 0);
    EXPECT(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
  }
  work();
}

static void daemon_process() {
  int ends[2];
  EXPECT(pipe(ends) == 0);
  auto middle = fork();
  EXPECT(middle >= 0);
  if (middle == 0) {
    EXPECT(setsid() >= 0);
    if (fork() != 0)
      _exit(0);
    EXPECT(chdir("/") == 0);
    work();
    char done = 'd';
    EXPECT(write(ends[1], &done, 1) == 1);
    exit(0);
  }
  close(ends[1]);
  EXPECT(waitpid(middle, nullptr, 0) == middle);
  // The pipe closes when the daemon ends, however it does.
  char done = 0;
  EXPECT(read(ends[0], &done, 1) == 1 && done == 'd');
}

static void few_files() {
  rlimit limit{40, 40};
  EXPECT(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  work();
}

// A process that is privileged might raise its limits.
static void give_up_privilege() {
  __user_cap_header_struct who = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct may[2] = {};
  EXPECT(syscall(SYS_capget, &who, may) == 0);
  for (auto* x : {&may[0].effective, &may[0].permitted})
    *x &= ~(1U << CAP_SYS_RESOURCE);
  EXPECT(syscall(SYS_capset, &who, may) == 0);
}

static void small_files() {
  give_up_privilege();
  rlimit limit{rlim_t(1) << 30, rlim_t(1) << 30};
  EXPECT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  work();
  rlimit now{};
  EXPECT(getrlimit(RLIMIT_FSIZE, &now) == 0);
  EXPECT(now.rlim_cur == limit.rlim_cur && now.rlim_max == limit.rlim_max);
}

struct odd {
  const char* name;
  void (*run)();
};
constexpr odd cases[] = {
    {"cleared", cleared},
    {"cleared_and_set", cleared_and_set},
    {"closed", closed},
    {"nowhere", nowhere},
    {"small_stack", small_stack},
    {"many_threads", many_threads},
    {"cancelled_threads", cancelled_threads},
    {"daemon", daemon_process},
    {"few_files", few_files},
    {"small_files", small_files},
};

static void run(const char* name) {
  auto child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    execl("/proc/self/exe", "odd_processes", name, nullptr);
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, 0) != child)
    EXPECT(errno == EINTR);
  if (status != 0)
    std::printf("%s: ended with status 0x%x\n", name, status);
  EXPECT(status == 0);
}

int main(int count, char** arguments) {
  for (auto& x : cases)
    if (count == 1)
      run(x.name);
    else if (std::strcmp(x.name, arguments[1]) == 0)
      x.run();
  if (count == 1)
    std::printf("ok\n");
}
