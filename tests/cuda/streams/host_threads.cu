// Several host threads, each with its own default stream, allocations,
// kernels and errors.
// nvcc: --default-stream per-thread
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

__global__ void mark(int* data, int n, int value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    data[i] += value;
}

static std::atomic<int> failures{0};

static void require(bool holds, int thread, const char* what) {
  if (holds)
    return;
  std::printf("thread %d: %s\n", thread, what);
  ++failures;
}

static void work(int id) {
  const int n = 5000 + id;
  for (int round = 0; round < 20; ++round) {
    int* dev = nullptr;
    require(cudaMalloc(&dev, n * sizeof(int)) == cudaSuccess, id, "malloc");
    require(cudaMemsetAsync(dev, 0, n * sizeof(int)) == cudaSuccess, id,
            "memset");
    for (int i = 0; i < 5; ++i)
      mark<<<(n + 127) / 128, 128>>>(dev, n, id + round);
    require(cudaStreamSynchronize(0) == cudaSuccess, id, "synchronize");
    std::vector<int> host(n);
    require(cudaMemcpy(host.data(), dev, n * sizeof(int),
                       cudaMemcpyDeviceToHost) == cudaSuccess,
            id, "copy");
    bool right = true;
    for (int value : host)
      right = right && value == 5 * (id + round);
    require(right, id, "wrong values");
    require(cudaFree(dev) == cudaSuccess, id, "free");
    // An error belongs to the thread that made it.
    if (id % 2 == 0) {
      mark<<<0, 1>>>(nullptr, 0, 0);
      require(cudaGetLastError() == cudaErrorInvalidValue, id, "own error");
    } else {
      require(cudaGetLastError() == cudaSuccess, id, "an error of another's");
    }
  }
}

int main() {
  std::vector<std::thread> threads;
  for (int id = 0; id < 6; ++id)
    threads.emplace_back(work, id);
  for (auto& t : threads)
    t.join();
  work(7); // on the main thread
  if (failures)
    return 1;
  std::printf("ok\n");
}
