// Memory filled in one and two dimensions, whole and in part.
#include <cstdio>
#include <cstring>
#include <vector>

int main() {
  const size_t pitch = 512, width = 300, height = 20;
  unsigned char* dev = nullptr;
  if (cudaMalloc(&dev, pitch * height) != cudaSuccess)
    return 1;
  std::vector<unsigned char> want(pitch * height), got(pitch * height);

  cudaMemset(dev, 0x11, pitch * height);
  std::memset(want.data(), 0x11, want.size());
  cudaMemset(dev + 13, 0xfe, 101); // odd start, odd length
  std::memset(want.data() + 13, 0xfe, 101);
  cudaMemset2D(dev + 2 * pitch + 7, pitch, 0x80, width, 5);
  for (int row = 0; row < 5; ++row)
    std::memset(want.data() + (2 + row) * pitch + 7, 0x80, width);
  cudaMemset2DAsync(dev + 10 * pitch, pitch, 1, pitch, 3, 0);
  std::memset(want.data() + 10 * pitch, 1, 3 * pitch);
  cudaMemsetAsync(dev + pitch * height - 1, 0x42, 1);
  want.back() = 0x42;
  cudaMemset(dev, 0x99, 0); // nothing

  cudaMemcpy(got.data(), dev, got.size(), cudaMemcpyDeviceToHost);
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] != want[i]) {
      std::printf("byte %zu is %02x, not %02x\n", i, got[i], want[i]);
      return 1;
    }
  }
  cudaFree(dev);
  if (cudaGetLastError() != cudaSuccess)
    return 1;
  std::puts("ok");
}
