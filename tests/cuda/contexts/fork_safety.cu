// A process that uses CUDA forks children that do not use CUDA, and continues
// to work.
#include <cstdio>
#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>

__global__ void increment(int* p) {
  ++*p;
}

static bool child_leaves(int code) {
  pid_t child = fork();
  if (child == 0)
    _exit(code);
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child &&
         WIFEXITED(status) && WEXITSTATUS(status) == code;
}

int main() {
  int* counter = nullptr;
  if (cudaMalloc(&counter, sizeof(int)) != cudaSuccess ||
      cudaMemset(counter, 0, sizeof(int)) != cudaSuccess)
    return 1;
  int* pinned = nullptr;
  if (cudaMallocHost(&pinned, sizeof(int)) != cudaSuccess)
    return 1;
  for (int i = 0; i < 5; ++i) {
    increment<<<1, 1>>>(counter);
    // The child is forked while work runs.
    if (!child_leaves(i)) {
      printf("child %d\n", i);
      return 1;
    }
    increment<<<1, 1>>>(counter);
  }
  if (system("exit 3") >> 8 != 3) {
    printf("system()\n");
    return 1;
  }
  FILE* pipe = popen("echo 17", "r");
  int number = 0;
  if (!pipe || fscanf(pipe, "%d", &number) != 1 || pclose(pipe) || number != 17)
    return 1;
  increment<<<1, 1>>>(counter);
  if (cudaMemcpy(pinned, counter, sizeof(int), cudaMemcpyDeviceToHost) !=
          cudaSuccess ||
      *pinned != 11) {
    printf("counted %d\n", *pinned);
    return 1;
  }
  cudaFreeHost(pinned);
  cudaFree(counter);
  printf("ok\n");
}
