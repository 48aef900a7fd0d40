// The parent of a program that uses CUDA gets its exit code or signal as usual.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

__global__ void store(int* p, int value) {
  *p = value;
}

static int* leftover = nullptr;

static void use_the_gpu() {
  if (cudaMalloc(&leftover, sizeof(int)) != cudaSuccess)
    abort();
  store<<<1, 1>>>(leftover, 1);
  if (cudaDeviceSynchronize() != cudaSuccess)
    abort();
  store<<<1, 1>>>(leftover, 2); // still running at the end
}

static int end_as(const char* how) {
  rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (!strcmp(how, "nothing"))
    return 5;
  if (!strcmp(how, "return")) {
    use_the_gpu();
    return 7;
  }
  if (!strcmp(how, "reset")) {
    use_the_gpu();
    return cudaDeviceReset() == cudaSuccess ? 8 : 1;
  }
  if (!strcmp(how, "exit")) {
    use_the_gpu();
    exit(3);
  }
  if (!strcmp(how, "_exit")) {
    use_the_gpu();
    _exit(4);
  }
  if (!strcmp(how, "thread")) {
    use_the_gpu();
    std::thread([] { exit(6); }).join();
  }
  if (!strcmp(how, "abort")) {
    use_the_gpu();
    abort();
  }
  if (!strcmp(how, "kill")) {
    use_the_gpu();
    raise(SIGKILL);
  }
  return 99;
}

static bool ends(const char* how, int code, int by_signal) {
  pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", "exit_codes", how, nullptr);
    _exit(127);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child)
    return false;
  bool right = by_signal ? WIFSIGNALED(status) && WTERMSIG(status) == by_signal
                         : WIFEXITED(status) && WEXITSTATUS(status) == code;
  if (!right)
    printf("%s: wait status %x\n", how, status);
  return right;
}

int main(int argc, char** argv) {
  if (argc > 1)
    return end_as(argv[1]);
  bool right = ends("nothing", 5, 0);
  right &= ends("return", 7, 0);
  right &= ends("reset", 8, 0);
  right &= ends("exit", 3, 0);
  right &= ends("_exit", 4, 0);
  right &= ends("thread", 6, 0);
  right &= ends("abort", 0, SIGABRT);
  right &= ends("kill", 0, SIGKILL);
  if (right)
    printf("ok\n");
  return right ? 0 : 1;
}
