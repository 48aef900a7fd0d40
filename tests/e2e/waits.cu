// Two streams that nothing but the program's own waiting keeps in order: what
// one of them computes the other one goes on with, once the host knows that it
// is done, from whatever tells it so. Prints a line a round.
// usage: waits [ROUNDS [MILLISECONDS BETWEEN THEM]]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <future>
#include <thread>

#define CHECK(call)                                                            \
  do {                                                                         \
    if (int check_code = static_cast<int>(call)) {                             \
      std::printf("%s: error %d\n", #call, check_code);                        \
      std::exit(1);                                                            \
    }                                                                          \
  } while (0)

/// Takes a while before it looks at what it is to go on from.
__global__ void mix(const unsigned* from, unsigned* to, unsigned by) {
  auto x = by;
  for (int i = 0; i < 20000; ++i)
    x = x * 1664525u + 1013904223u;
  *to = *reinterpret_cast<const volatile unsigned*>(from) * 1664525u + x;
}

void CUDART_CB tell(void* whom) {
  static_cast<std::promise<void>*>(whom)->set_value();
}

constexpr int ways = 7;

void wait_for(cudaStream_t stream, const unsigned* made, int way) {
  cudaEvent_t event;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  CHECK(cudaEventRecord(event, stream));
  unsigned seen;
  std::promise<void> called;
  switch (way % ways) {
  case 0:
    CHECK(cudaStreamSynchronize(stream));
    break;
  case 1:
    CHECK(cudaEventSynchronize(event));
    break;
  case 2:
    CHECK(cudaDeviceSynchronize());
    break;
  case 3:
    while (cudaStreamQuery(stream) == cudaErrorNotReady)
      std::this_thread::yield();
    break;
  case 4:
    while (cudaEventQuery(event) == cudaErrorNotReady)
      std::this_thread::yield();
    break;
  case 5: // returns when it is done, as the memory is pageable
    CHECK(cudaMemcpyAsync(&seen, made, sizeof seen, cudaMemcpyDeviceToHost,
                          stream));
    break;
  case 6:
    CHECK(cudaLaunchHostFunc(stream, tell, &called));
    called.get_future().wait();
    break;
  }
  CHECK(cudaEventDestroy(event));
}

int main(int argc, char** argv) {
  int rounds = argc > 1 ? std::atoi(argv[1]) : 12;
  int pause = argc > 2 ? std::atoi(argv[2]) : 0;
  cudaStream_t streams[2];
  unsigned* words;
  CHECK(cudaMalloc(&words, 3 * sizeof(unsigned)));
  CHECK(cudaMemset(words, 0, 3 * sizeof(unsigned)));
  for (auto& stream : streams)
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int r = 0; r < rounds; ++r) {
    for (int step = 0; step < 2 * ways; ++step) {
      auto stream = streams[step % 2];
      auto from = words + step % 2, to = words + (step + 1) % 2;
      mix<<<1, 1, 0, stream>>>(from, to, unsigned(r * 2 * ways + step));
      wait_for(stream, to, step);
    }
    // A copy from the host in one, and a kernel in the other that uses it.
    auto value = unsigned(r) * 2654435761u;
    CHECK(cudaMemcpyAsync(words + 2, &value, sizeof value,
                          cudaMemcpyHostToDevice, streams[0]));
    CHECK(cudaStreamSynchronize(streams[0]));
    mix<<<1, 1, 0, streams[1]>>>(words + 2, words + 1, unsigned(r));
    unsigned got[3];
    CHECK(cudaStreamSynchronize(streams[1]));
    CHECK(cudaMemcpy(got, words, sizeof got, cudaMemcpyDeviceToHost));
    std::printf("round %d: %08x %08x %08x\n", r, got[0], got[1], got[2]);
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::milliseconds(pause));
  }
}
