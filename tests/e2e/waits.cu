// Uses three streams of two devices that only the program's own waiting keeps
// in order: each stream continues with the result of another one, once the host
// knows by some call that it is done. Prints one line per round.
// usage: waits [ROUNDS [MILLISECONDS BETWEEN THEM]]
#include "../cuda/check.hpp"

#include <chrono>
#include <future>
#include <thread>

/// Takes a while before it reads its input.
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
  case 5: // returns when the copy is done, because the memory is pageable
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
  constexpr int count = 3, words = count + 1;
  constexpr int device[count] = {0, 0, 1};
  cudaStream_t streams[count];
  unsigned* word;
  CHECK(cudaMalloc(&word, words * sizeof(unsigned)));
  CHECK(cudaMemset(word, 0, words * sizeof(unsigned)));
  for (int i = 0; i < count; ++i) {
    CHECK(cudaSetDevice(device[i]));
    CHECK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
  }
  CHECK(cudaDeviceEnablePeerAccess(0, 0));
  auto by = 0u;
  auto compute = [&](int in, const unsigned* from, unsigned* to) {
    CHECK(cudaSetDevice(device[in]));
    mix<<<1, 1, 0, streams[in]>>>(from, to, ++by);
  };
  for (int r = 0; r < rounds; ++r) {
    // This tries each way to wait in each stream.
    for (int step = 0; step < count * ways; ++step) {
      auto to = word + (step + 1) % count;
      compute(step % count, word + step % count, to);
      wait_for(streams[step % count], to, step);
    }
    // One stream copies from the host, and a kernel in another uses the copy.
    auto value = unsigned(r) * 2654435761u;
    CHECK(cudaSetDevice(0));
    CHECK(cudaMemcpyAsync(word + count, &value, sizeof value,
                          cudaMemcpyHostToDevice, streams[0]));
    CHECK(cudaStreamSynchronize(streams[0]));
    compute(1, word + count, word + 1);
    CHECK(cudaStreamSynchronize(streams[1]));
    unsigned got[words];
    CHECK(cudaMemcpy(got, word, sizeof got, cudaMemcpyDeviceToHost));
    std::printf("round %d: %08x %08x %08x %08x\n", r, got[0], got[1], got[2],
                got[3]);
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::milliseconds(pause));
  }
}
