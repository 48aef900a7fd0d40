// A three-dimensional block of memory and a three-dimensional grid.
#include <cstdio>
#include <vector>

__global__ void stamp(cudaPitchedPtr volume, int nx, int ny, int nz) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  int z = blockIdx.z * blockDim.z + threadIdx.z;
  if (x >= nx || y >= ny || z >= nz)
    return;
  char* slice = static_cast<char*>(volume.ptr) + z * volume.pitch * ny;
  int* row = reinterpret_cast<int*>(slice + y * volume.pitch);
  row[x] += x + 100 * y + 10000 * z;
}

int main() {
  const int nx = 30, ny = 21, nz = 11;
  cudaExtent extent = make_cudaExtent(nx * sizeof(int), ny, nz);
  cudaPitchedPtr dev;
  if (cudaMalloc3D(&dev, extent) != cudaSuccess ||
      cudaMemset3D(dev, 1, extent) != cudaSuccess)
    return 1;
  dim3 block(8, 4, 2);
  dim3 grid((nx + 7) / 8, (ny + 3) / 4, (nz + 1) / 2);
  stamp<<<grid, block>>>(dev, nx, ny, nz);
  std::vector<int> host(nx * ny * nz, -1);
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = dev;
  copy.dstPtr = make_cudaPitchedPtr(host.data(), nx * sizeof(int), nx, ny);
  copy.extent = extent;
  copy.kind = cudaMemcpyDeviceToHost;
  cudaError_t e = cudaMemcpy3D(&copy);
  if (e != cudaSuccess) {
    printf("cudaMemcpy3D: %s\n", cudaGetErrorString(e));
    return 1;
  }
  for (int z = 0; z < nz; ++z)
    for (int y = 0; y < ny; ++y)
      for (int x = 0; x < nx; ++x) {
        int want = 0x01010101 + x + 100 * y + 10000 * z;
        int got = host[(z * ny + y) * nx + x];
        if (got != want) {
          printf("(%d, %d, %d): %d, not %d\n", x, y, z, got, want);
          return 1;
        }
      }
  cudaFree(dev.ptr);
  printf("ok\n");
}
