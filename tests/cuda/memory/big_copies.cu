// Large and oddly sized copies to the device and back, whole and in overlapping
// pieces.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static void require(cudaError_t e, const char* what) {
  if (e != cudaSuccess) {
    printf("%s: %s\n", what, cudaGetErrorString(e));
    exit(1);
  }
}

static void fill(std::vector<unsigned char>& bytes, unsigned long long seed) {
  unsigned long long x = seed * 2 + 1;
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    memcpy(&bytes[i], &x, 8);
  }
  for (; i < bytes.size(); ++i)
    bytes[i] = static_cast<unsigned char>(i);
}

static bool round_trip(size_t size, size_t offset) {
  std::vector<unsigned char> up(size), back(size);
  fill(up, size);
  unsigned char *first, *second;
  require(cudaMalloc(&first, size + offset), "cudaMalloc");
  require(cudaMalloc(&second, size + offset), "cudaMalloc");
  require(cudaMemcpy(first + offset, up.data(), size, cudaMemcpyHostToDevice),
          "up");
  require(cudaMemcpy(second + offset, first + offset, size,
                     cudaMemcpyDeviceToDevice),
          "across");
  require(cudaMemset(first, 0, size + offset), "memset");
  require(cudaMemcpy(back.data(), second + offset, size, cudaMemcpyDefault),
          "down");
  require(cudaFree(first), "cudaFree");
  require(cudaFree(second), "cudaFree");
  if (up == back)
    return true;
  printf("%zu bytes at offset %zu came back changed\n", size, offset);
  return false;
}

int main() {
  bool right = round_trip(size_t{64} << 20, 0);
  for (size_t size :
       {size_t{1}, size_t{3}, size_t{255}, size_t{4097}, size_t{65537},
        size_t{1000003}, (size_t{4} << 20) + 1, (size_t{9} << 20) - 5})
    for (size_t offset : {size_t{0}, size_t{1}})
      right &= round_trip(size, offset);

  // Pageable memory may be overwritten as soon as an asynchronous copy from
  // it returned.
  const size_t n = 3000001;
  std::vector<unsigned char> host(n), back(n);
  unsigned char* dev;
  require(cudaMalloc(&dev, 4 * n), "cudaMalloc");
  cudaStream_t stream;
  require(cudaStreamCreate(&stream), "cudaStreamCreate");
  for (int i = 0; i < 4; ++i) {
    memset(host.data(), 10 + i, n);
    require(cudaMemcpyAsync(dev + i * n, host.data(), n, cudaMemcpyHostToDevice,
                            stream),
            "async up");
  }
  memset(host.data(), 99, n);
  for (int i = 0; i < 4; ++i) {
    require(cudaMemcpyAsync(back.data(), dev + i * n, n, cudaMemcpyDeviceToHost,
                            stream),
            "async down");
    require(cudaStreamSynchronize(stream), "synchronize");
    if (back[0] != 10 + i || memcmp(back.data(), back.data() + 1, n - 1)) {
      printf("piece %d holds %d\n", i, back[0]);
      right = false;
    }
  }
  require(cudaStreamDestroy(stream), "cudaStreamDestroy");
  require(cudaFree(dev), "cudaFree");
  if (right)
    printf("ok\n");
  return right ? 0 : 1;
}
