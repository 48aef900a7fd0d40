// Many bytes go down to registered memory and up again in one stream, as in
// programs that offload their memory, and nobody waits between the copies.
#include "../gate.hpp"

#include <algorithm>
#include <vector>

constexpr std::size_t size = std::size_t{48} << 20;
constexpr int rounds = 4;

int main() {
  std::vector<unsigned char> host(size), back(size);
  unsigned char* device;
  cudaStream_t s;
  CHECK(cudaMalloc(&device, size));
  CHECK(cudaHostRegister(host.data(), size, cudaHostRegisterDefault));
  CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  for (auto behind_function : {false, true}) {
    gate door;
    if (behind_function)
      door.close(s);
    for (int i = 0; i < rounds; ++i) {
      CHECK(cudaMemsetAsync(device, 10 * (i + 1), size, s));
      CHECK(cudaMemcpyAsync(host.data(), device, size, cudaMemcpyDeviceToHost,
                            s));
      CHECK(cudaMemsetAsync(device, 1, size, s));
      CHECK(cudaMemcpyAsync(device, host.data(), size, cudaMemcpyHostToDevice,
                            s));
    }
    if (behind_function)
      door.open();
    CHECK(cudaStreamSynchronize(s));
    CHECK(cudaMemcpy(back.data(), device, size, cudaMemcpyDeviceToHost));
    std::vector<unsigned char> expected(size, 10 * rounds);
    EXPECT(host == expected);
    EXPECT(back == expected);
  }
  CHECK(cudaStreamDestroy(s));
  CHECK(cudaHostUnregister(host.data()));
  CHECK(cudaFree(device));
  std::printf("ok\n");
}
