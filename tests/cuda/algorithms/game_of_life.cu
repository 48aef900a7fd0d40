// Conway's game of life: a glider moves over a torus to the right place.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define W 64
#define H 48

__global__ void generation(const char* now, char* then) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= W || y >= H)
    return;
  int neighbours = 0;
#pragma unroll
  for (int dy = -1; dy <= 1; ++dy)
#pragma unroll
    for (int dx = -1; dx <= 1; ++dx)
      if (dx || dy)
        neighbours += now[(y + dy + H) % H * W + (x + dx + W) % W];
  then[y * W + x] = neighbours == 3 || (neighbours == 2 && now[y * W + x]);
}

int main() {
  static char start[H][W], end[H][W], want[H][W];
  const int glider[5][2] = {{1, 0}, {2, 1}, {0, 2}, {1, 2}, {2, 2}};
  const int generations = 4 * 100; // one cell right and down every four
  for (int i = 0; i < 5; ++i) {
    start[glider[i][1]][glider[i][0]] = 1;
    want[(glider[i][1] + 100) % H][(glider[i][0] + 100) % W] = 1;
  }
  char *a, *b;
  if (cudaMalloc(&a, sizeof start) || cudaMalloc(&b, sizeof start))
    return 1;
  cudaMemcpy(a, start, sizeof start, cudaMemcpyHostToDevice);
  dim3 block(16, 16);
  dim3 grid(W / 16, H / 16);
  for (int i = 0; i < generations; i += 2) {
    generation<<<grid, block>>>(a, b);
    generation<<<grid, block>>>(b, a);
  }
  if (cudaMemcpy(end, a, sizeof end, cudaMemcpyDeviceToHost))
    return 1;
  if (memcmp(end, want, sizeof end)) {
    for (int y = 0; y < H; ++y) {
      for (int x = 0; x < W; ++x)
        putchar(end[y][x] ? '#' : '.');
      putchar('\n');
    }
    return 1;
  }
  printf("ok\n");
  return 0;
}
