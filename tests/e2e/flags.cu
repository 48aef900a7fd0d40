// Runs streams that wait for words of memory and write them: pinned words,
// which the host sets and resets as soon as it knows that a stream saw them,
// and device words, by which two streams alternate. The result of a round
// depends on the order that the words cause. Prints one line per round.
// usage: flags [ROUNDS [MILLISECONDS BETWEEN THEM]]
// nvcc: -lcuda
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <cuda_runtime.h>
#include <thread>

#define CHECK(call)                                                            \
  do {                                                                         \
    if (int check_code = static_cast<int>(call)) {                             \
      std::printf("%s: error %d\n", #call, check_code);                        \
      std::exit(1);                                                            \
    }                                                                          \
  } while (0)

constexpr int n = 1 << 12;

/// Is not commutative, so the order of two calls matters.
__global__ void mix(unsigned* data, unsigned by) {
  for (int i = 0; i < 50; ++i)
    data[threadIdx.x] = data[threadIdx.x] * 1664525u + by + threadIdx.x;
}
__global__ void shift(unsigned* data) {
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    data[i] ^= data[i] >> 3;
}

CUdeviceptr address(const void* p) {
  return reinterpret_cast<CUdeviceptr>(p);
}

/// Polls a word until a stream has written this value, without a driver call. A
/// lost worker is replaced within the time limit.
void await(const unsigned long long* word, unsigned value) {
  constexpr auto longest = std::chrono::seconds{30};
  auto began = std::chrono::steady_clock::now();
  while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value) {
    if (std::chrono::steady_clock::now() - began > longest) {
      std::printf("the word that says so was not written in round %u\n", value);
      std::exit(1);
    }
    std::this_thread::yield();
  }
}

int main(int argc, char** argv) {
  auto rounds = static_cast<unsigned>(argc > 1 ? std::atoi(argv[1]) : 12);
  auto pause = std::chrono::milliseconds(argc > 2 ? std::atoi(argv[2]) : 0);
  unsigned *data = nullptr, *words = nullptr, *go = nullptr, *result = nullptr;
  unsigned long long* seen = nullptr;
  CHECK(cudaMalloc(&data, n * sizeof(unsigned)));
  CHECK(cudaMalloc(&words, 64));
  CHECK(cudaMallocHost(&go, sizeof(unsigned)));
  CHECK(cudaMallocHost(&seen, sizeof *seen));
  CHECK(cudaMallocHost(&result, n * sizeof(unsigned)));
  *go = 0;
  *seen = 0;
  CHECK(cudaMemset(data, 1, n * sizeof(unsigned)));
  CHECK(cudaMemset(words, 0, 64));
  cudaStream_t a, b;
  CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
  CHECK(cudaDeviceSynchronize());
  auto ping = address(words), pong = address(words + 8);

  for (unsigned round = 1; round <= rounds; ++round) {
    // b comes first in the log, and second on the device.
    CHECK(cuStreamWaitValue32(b, ping, round, CU_STREAM_WAIT_VALUE_EQ));
    mix<<<1, 256, 0, b>>>(data, round);
    CHECK(cuStreamWriteValue32(b, pong, round, 0));

    CHECK(cuStreamWaitValue32(a, address(go), round, CU_STREAM_WAIT_VALUE_EQ));
    shift<<<1, 256, 0, a>>>(data);
    CHECK(cuStreamWriteValue32(a, ping, round, 0));
    CHECK(cuStreamWaitValue32(a, pong, round, CU_STREAM_WAIT_VALUE_GEQ));
    shift<<<1, 256, 0, a>>>(data);
    CHECK(cuStreamWriteValue64(a, address(seen), round, 0));
    CHECK(cudaMemcpyAsync(result, data, n * sizeof(unsigned),
                          cudaMemcpyDeviceToHost, a));
    __atomic_store_n(go, round, __ATOMIC_RELEASE);
    await(seen, round);
    // A second wait for this value would not end.
    __atomic_store_n(go, 0u, __ATOMIC_RELEASE);
    CHECK(cudaStreamSynchronize(a));
    CHECK(cuStreamWriteValue32(a, ping, 0, 0));

    unsigned long long sum = 0;
    for (int i = 0; i < n; ++i)
      sum = sum * 31 + result[i];
    std::printf("round %u sum %016llx\n", round, sum);
    std::fflush(stdout);
    // This makes the run long enough for its worker to be killed.
    std::this_thread::sleep_for(pause);
  }
  CHECK(cudaDeviceSynchronize());
}
