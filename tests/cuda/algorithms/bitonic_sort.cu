// Sorts keys with their values, by a hundred small launches in a row.
#include <algorithm>
#include <cstdio>
#include <vector>

__global__ void exchange(int* keys, short* values, int j, int k) {
  int i = threadIdx.x + blockDim.x * blockIdx.x;
  int other = i ^ j;
  if (other <= i)
    return;
  bool ascending = (i & k) == 0;
  if ((keys[i] > keys[other]) == ascending) {
    int key = keys[i];
    keys[i] = keys[other];
    keys[other] = key;
    short value = values[i];
    values[i] = values[other];
    values[other] = value;
  }
}

int main() {
  constexpr int n = 1 << 13;
  std::vector<int> keys(n);
  std::vector<short> values(n);
  unsigned x = 42;
  for (int i = 0; i < n; ++i) {
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    keys[i] = static_cast<int>(x);
    values[i] = static_cast<short>(x % 10007);
  }
  auto sorted = keys;
  std::sort(sorted.begin(), sorted.end());

  int* dev_keys;
  short* dev_values;
  cudaMalloc(&dev_keys, n * sizeof(int));
  cudaMalloc(&dev_values, n * sizeof(short));
  cudaMemcpy(dev_keys, keys.data(), n * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemcpy(dev_values, values.data(), n * sizeof(short),
             cudaMemcpyHostToDevice);
  for (int k = 2; k <= n; k *= 2)
    for (int j = k / 2; j > 0; j /= 2)
      exchange<<<n / 256, 256>>>(dev_keys, dev_values, j, k);
  cudaMemcpy(keys.data(), dev_keys, n * sizeof(int), cudaMemcpyDeviceToHost);
  cudaMemcpy(values.data(), dev_values, n * sizeof(short),
             cudaMemcpyDeviceToHost);
  cudaFree(dev_keys);
  cudaFree(dev_values);
  if (cudaGetLastError() != cudaSuccess || keys != sorted) {
    std::printf("not sorted\n");
    return 1;
  }
  for (int i = 0; i < n; ++i) {
    if (values[i] !=
        static_cast<short>(static_cast<unsigned>(keys[i]) % 10007)) {
      std::printf("value %d left its key\n", i);
      return 1;
    }
  }
  std::printf("ok\n");
}
