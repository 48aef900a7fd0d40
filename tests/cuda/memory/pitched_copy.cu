// Two-dimensional copies between rows of different lengths.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(cudaError_t e, int line) {
  if (e != cudaSuccess) {
    fprintf(stderr, "line %d: %s\n", line, cudaGetErrorName(e));
    exit(1);
  }
}
#define CK(x) check((x), __LINE__)

__global__ void addRowNumber(unsigned char* image, size_t pitch, int width,
                             int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height)
    image[y * pitch + x] += (unsigned char)y;
}

int main(void) {
  const int width = 333, height = 77, hostPitch = 350;
  unsigned char* host = (unsigned char*)malloc(hostPitch * height);
  unsigned char* back = (unsigned char*)malloc(hostPitch * height);
  memset(back, 0xee, hostPitch * height);
  for (int i = 0; i < hostPitch * height; ++i)
    host[i] = (unsigned char)(i * 31);

  unsigned char *a, *b;
  size_t pitchA, pitchB;
  CK(cudaMallocPitch(&a, &pitchA, width, height));
  CK(cudaMallocPitch(&b, &pitchB, 2 * width, height));
  if (pitchA < (size_t)width || pitchB < 2 * (size_t)width || pitchA % 32) {
    printf("pitches %zu %zu\n", pitchA, pitchB);
    return 1;
  }
  CK(cudaMemset2D(b, pitchB, 0, 2 * width, height));
  CK(cudaMemcpy2D(a, pitchA, host, hostPitch, width, height,
                  cudaMemcpyHostToDevice));
  dim3 block(32, 4), grid((width + 31) / 32, (height + 3) / 4);
  addRowNumber<<<grid, block>>>(a, pitchA, width, height);
  // Copies into the right half of b, and from there to the host.
  CK(cudaMemcpy2D(b + width, pitchB, a, pitchA, width, height,
                  cudaMemcpyDeviceToDevice));
  CK(cudaMemcpy2DAsync(back, hostPitch, b + width, pitchB, width, height,
                       cudaMemcpyDeviceToHost, 0));
  CK(cudaDeviceSynchronize());

  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < hostPitch; ++x) {
      unsigned char want = 0xee; // Bytes between the rows do not change.
      if (x < width)
        want = (unsigned char)(host[y * hostPitch + x] + y);
      if (back[y * hostPitch + x] != want) {
        printf("(%d, %d): %d instead of %d\n", x, y, back[y * hostPitch + x],
               want);
        return 1;
      }
    }
  }
  CK(cudaFree(a));
  CK(cudaFree(b));
  free(host);
  free(back);
  puts("ok");
  return 0;
}
