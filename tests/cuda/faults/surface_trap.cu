// An access outside of a surface, in the boundary mode that traps, ends the
// kernel with an error that the program gets.
#include <cstdio>

__global__ void store(cudaSurfaceObject_t s, int x, int y) {
  surf2Dwrite(1.0f, s, x, y, cudaBoundaryModeTrap);
}

int main() {
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array;
  if (cudaMallocArray(&array, &format, 16, 8, cudaArraySurfaceLoadStore) !=
      cudaSuccess)
    return 1;
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaSurfaceObject_t surface;
  if (cudaCreateSurfaceObject(&surface, &resource) != cudaSuccess)
    return 1;
  store<<<1, 1>>>(surface, 60, 7);
  cudaError_t inside = cudaDeviceSynchronize();
  store<<<1, 1>>>(surface, 64, 7);
  cudaError_t outside = cudaDeviceSynchronize();
  if (inside != cudaSuccess || outside == cudaSuccess) {
    printf("inside %s, outside %s\n", cudaGetErrorName(inside),
           cudaGetErrorName(outside));
    return 1;
  }
  printf("ok\n");
}
