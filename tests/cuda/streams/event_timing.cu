// Events measure time in one stream and order two streams.
#include <cstdio>
#include <cstdlib>
#include <vector>

static void must(cudaError_t status, const char* call) {
  if (status != cudaSuccess) {
    std::printf("%s: %s\n", call, cudaGetErrorName(status));
    std::exit(1);
  }
}
#define MUST(call) must(call, #call)

__global__ void churn(unsigned* data, int rounds) {
  unsigned x = data[blockIdx.x * blockDim.x + threadIdx.x];
  for (int i = 0; i < rounds; ++i)
    x = x * 1664525u + 1013904223u;
  data[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

int main() {
  const int n = 64 * 128;
  unsigned* data;
  MUST(cudaMalloc(&data, n * sizeof(unsigned)));
  cudaStream_t first, second;
  MUST(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  MUST(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  cudaEvent_t begin, middle, end;
  MUST(cudaEventCreate(&begin));
  MUST(cudaEventCreate(&middle));
  MUST(cudaEventCreate(&end));

  MUST(cudaMemsetAsync(data, 0, n * sizeof(unsigned), first));
  MUST(cudaEventRecord(begin, first));
  churn<<<64, 128, 0, first>>>(data, 500);
  MUST(cudaEventRecord(middle, first));
  MUST(cudaStreamWaitEvent(second, middle, 0));
  churn<<<64, 128, 0, second>>>(data, 500);
  MUST(cudaEventRecord(end, second));
  MUST(cudaEventSynchronize(end));

  float to_middle = -1, to_end = -1;
  MUST(cudaEventElapsedTime(&to_middle, begin, middle));
  MUST(cudaEventElapsedTime(&to_end, begin, end));
  if (!(to_middle > 0 && to_end > to_middle)) {
    std::printf("elapsed %g and %g ms\n", to_middle, to_end);
    return 1;
  }
  MUST(cudaEventQuery(begin));
  MUST(cudaStreamQuery(second));

  std::vector<unsigned> result(n);
  MUST(cudaMemcpy(result.data(), data, n * sizeof(unsigned),
                  cudaMemcpyDeviceToHost));
  unsigned expected = 0;
  for (int i = 0; i < 1000; ++i)
    expected = expected * 1664525u + 1013904223u;
  for (unsigned value : result) {
    if (value != expected) {
      std::printf("%u instead of %u\n", value, expected);
      return 1;
    }
  }
  MUST(cudaEventDestroy(begin));
  MUST(cudaEventDestroy(middle));
  MUST(cudaEventDestroy(end));
  MUST(cudaStreamDestroy(first));
  MUST(cudaStreamDestroy(second));
  MUST(cudaFree(data));
  std::printf("ok\n");
}
