// Managed variables belong to the program's code and not to a context: they
// keep what the program and its kernels wrote when the device is reset.
// nvcc: -lcuda
#include "../check.hpp"

__managed__ int counter = 41;
__managed__ double table[20000] = {1.5};
__device__ int plain = 7;

__global__ void work() {
  ++counter;
  table[19999] = counter + plain;
  ++plain;
}

int main() {
  for (int life = 0; life < 3; ++life) {
    work<<<1, 1>>>();
    CHECK(cudaDeviceSynchronize());
    EXPECT(counter == 42 + 2 * life);
    // An ordinary variable begins anew.
    EXPECT(table[19999] == counter + 7);
    ++counter;
    table[10000 + life] = 5 + life;
    CHECK(cudaDeviceReset());
    CHECK(cudaFree(nullptr));
    EXPECT(counter == 43 + 2 * life);
    EXPECT(table[0] == 1.5 && table[10000 + life] == 5 + life);
    EXPECT(table[19999] == counter - 1 + 7);
  }
  // The kernel's last writes survive without a look of the host at them.
  work<<<1, 1>>>();
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaDeviceReset());
  CHECK(cudaFree(nullptr));
  EXPECT(counter == 48);
  std::printf("ok\n");
}
