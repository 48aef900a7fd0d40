// Each of several streams fills memory and copies it to registered memory, many
// times, and nobody waits before all is enqueued. Together they copy more than
// may be under way at once, and the device has no more channels than streams.
#include "../check.hpp"

#include <algorithm>
#include <vector>

constexpr int streams = 8;
constexpr int rounds = 10;
constexpr std::size_t part = std::size_t{4} << 20;

int main() {
  std::vector<unsigned char> host(streams * part);
  unsigned char* device;
  cudaStream_t s[streams];
  CHECK(cudaMalloc(&device, host.size()));
  CHECK(cudaHostRegister(host.data(), host.size(), cudaHostRegisterMapped));
  for (auto& x : s)
    CHECK(cudaStreamCreate(&x));
  for (int round = 1; round <= rounds; ++round) {
    for (int i = 0; i < streams; ++i)
      CHECK(cudaMemsetAsync(device + i * part, 20 * i + round, part, s[i]));
    for (int i = 0; i < streams; ++i)
      CHECK(cudaMemcpyAsync(host.data() + i * part, device + i * part, part,
                            cudaMemcpyDeviceToHost, s[i]));
  }
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < streams; ++i)
    EXPECT(std::all_of(host.begin() + i * part, host.begin() + (i + 1) * part,
                       [i](auto x) { return x == 20 * i + rounds; }));
  for (auto& x : s)
    CHECK(cudaStreamDestroy(x));
  CHECK(cudaHostUnregister(host.data()));
  CHECK(cudaFree(device));
  std::printf("ok\n");
}
