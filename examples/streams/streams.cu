// Overlaps copies and kernels: chunks of pinned memory pass through several
// streams, and events measure the time.
#include "../example.hpp"

constexpr int streams = 4;

__global__ void polynomial(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float x = in[i];
    out[i] = (x * 2 + 3) * x + 1;
  }
}

int main(int argc, char** argv) {
  long chunks = 16, chunk = 1 << 17;
  parse_arguments(argc, argv, "streams",
                  "Overlaps copies with kernels in four streams.",
                  {{"chunks", &chunks, 1, 4096, "how many chunks"},
                   {"elements", &chunk, 1, 1 << 24, "floats in each chunk"}});
  int n = static_cast<int>(chunk);
  size_t bytes = n * sizeof(float);

  float *in, *out;
  check(cudaMallocHost(&in, chunks * bytes), "cudaMallocHost");
  check(cudaMallocHost(&out, chunks * bytes), "cudaMallocHost");
  for (long i = 0; i < chunks * n; ++i)
    in[i] = static_cast<float>(i % 1000);

  cudaStream_t stream[streams];
  float *dev_in[streams], *dev_out[streams];
  for (int s = 0; s < streams; ++s) {
    check(cudaStreamCreate(&stream[s]), "cudaStreamCreate");
    check(cudaMalloc(&dev_in[s], bytes), "cudaMalloc");
    check(cudaMalloc(&dev_out[s], bytes), "cudaMalloc");
  }
  cudaEvent_t begin, end, done[streams];
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");

  check(cudaEventRecord(begin, stream[0]), "cudaEventRecord");
  for (int s = 1; s < streams; ++s)
    check(cudaStreamWaitEvent(stream[s], begin, 0), "cudaStreamWaitEvent");
  for (long c = 0; c < chunks; ++c) {
    int s = static_cast<int>(c % streams);
    check(cudaMemcpyAsync(dev_in[s], in + c * n, bytes, cudaMemcpyHostToDevice,
                          stream[s]),
          "copy in");
    polynomial<<<(n + 255) / 256, 256, 0, stream[s]>>>(dev_in[s], dev_out[s],
                                                       n);
    check(cudaMemcpyAsync(out + c * n, dev_out[s], bytes,
                          cudaMemcpyDeviceToHost, stream[s]),
          "copy out");
  }
  for (int s = 0; s < streams; ++s) {
    check(cudaEventCreateWithFlags(&done[s], cudaEventDisableTiming),
          "cudaEventCreateWithFlags");
    check(cudaEventRecord(done[s], stream[s]), "cudaEventRecord");
    check(cudaStreamWaitEvent(stream[0], done[s], 0), "cudaStreamWaitEvent");
  }
  check(cudaEventRecord(end, stream[0]), "cudaEventRecord");
  check(cudaEventSynchronize(end), "cudaEventSynchronize");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin, end),
        "cudaEventElapsedTime");

  for (long i = 0; i < chunks * n; ++i) {
    float expected = (in[i] * 2 + 3) * in[i] + 1; // exact for small integers
    if (out[i] != expected) {
      std::printf("streams: element %ld is %g, expected %g\n", i, out[i],
                  expected);
      return 1;
    }
  }
  for (int s = 0; s < streams; ++s) {
    check(cudaFree(dev_in[s]), "cudaFree");
    check(cudaFree(dev_out[s]), "cudaFree");
    check(cudaEventDestroy(done[s]), "cudaEventDestroy");
    check(cudaStreamDestroy(stream[s]), "cudaStreamDestroy");
  }
  check(cudaEventDestroy(begin), "cudaEventDestroy");
  check(cudaEventDestroy(end), "cudaEventDestroy");
  check(cudaFreeHost(in), "cudaFreeHost");
  check(cudaFreeHost(out), "cudaFreeHost");
  std::printf("streams: %ld chunks in %.2f ms, all right\n", chunks,
              milliseconds);
  return milliseconds > 0 ? 0 : 1;
}
