// Ten thousand small allocations at once, which do not overlap and keep their
// contents.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

__global__ void number(int** pointers, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    *pointers[i] = i;
}

int main() {
  const int n = 10000;
  std::vector<int*> pointers(n);
  std::vector<size_t> sizes(n);
  for (int i = 0; i < n; ++i) {
    sizes[i] = 4 + i % 700;
    if (cudaMalloc(&pointers[i], sizes[i]) != cudaSuccess) {
      printf("allocation %d\n", i);
      return 1;
    }
    if (reinterpret_cast<size_t>(pointers[i]) % 256) {
      printf("allocation %d at %p\n", i, static_cast<void*>(pointers[i]));
      return 1;
    }
  }
  std::vector<int> order(n);
  for (int i = 0; i < n; ++i)
    order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return pointers[a] < pointers[b]; });
  for (int k = 1; k < n; ++k) {
    auto end =
        reinterpret_cast<char*>(pointers[order[k - 1]]) + sizes[order[k - 1]];
    if (end > reinterpret_cast<char*>(pointers[order[k]])) {
      printf("%d and %d overlap\n", order[k - 1], order[k]);
      return 1;
    }
  }

  int** table;
  cudaMalloc(&table, n * sizeof(int*));
  cudaMemcpy(table, pointers.data(), n * sizeof(int*), cudaMemcpyHostToDevice);
  number<<<(n + 255) / 256, 256>>>(table, n);
  for (int i = 0; i < n; i += 97) {
    int value = -1;
    if (cudaMemcpy(&value, pointers[i], sizeof value, cudaMemcpyDeviceToHost) !=
            cudaSuccess ||
        value != i) {
      printf("allocation %d holds %d\n", i, value);
      return 1;
    }
  }
  // Frees them in a different order.
  std::reverse(order.begin(), order.end());
  for (int i : order) {
    if (cudaFree(pointers[i]) != cudaSuccess) {
      printf("free of %d\n", i);
      return 1;
    }
  }
  cudaFree(table);
  printf("ok\n");
}
