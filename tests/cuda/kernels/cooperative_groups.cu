// Cooperative groups: blocks, tiles, coalesced threads, and a whole grid.
#include <cooperative_groups.h>
#include <cstdio>

namespace cg = cooperative_groups;

__global__ void in_tiles(const int* in, int* of_tile, int* odd_ranks) {
  cg::thread_block block = cg::this_thread_block();
  auto tile = cg::tiled_partition<8>(block);
  int i = block.group_index().x * block.size() + block.thread_rank();
  int sum = in[i];
  for (int offset = tile.size() / 2; offset > 0; offset /= 2)
    sum += tile.shfl_down(sum, offset);
  if (tile.thread_rank() == 0)
    of_tile[i / 8] = sum;
  if (in[i] % 2) {
    auto odd = cg::coalesced_threads();
    odd_ranks[i] = odd.thread_rank();
  }
  block.sync();
}

__global__ void in_grid(int* data, int n) {
  cg::grid_group grid = cg::this_grid();
  for (int round = 0; round < 4; ++round) {
    // Each thread reads what another block wrote in the previous round.
    int mine = data[(grid.thread_rank() + 64) % n];
    grid.sync();
    data[grid.thread_rank()] = mine + 1;
    grid.sync();
  }
}

int main() {
  const int n = 256;
  int in[n], tiles[n / 8], ranks[n];
  for (int i = 0; i < n; ++i)
    in[i] = i * i % 23;
  int *dev_in, *dev_tiles, *dev_ranks;
  if (cudaMalloc(&dev_in, sizeof in) || cudaMalloc(&dev_tiles, sizeof tiles) ||
      cudaMalloc(&dev_ranks, sizeof ranks))
    return 1;
  cudaMemcpy(dev_in, in, sizeof in, cudaMemcpyHostToDevice);
  in_tiles<<<n / 64, 64>>>(dev_in, dev_tiles, dev_ranks);
  cudaMemcpy(tiles, dev_tiles, sizeof tiles, cudaMemcpyDeviceToHost);
  if (cudaMemcpy(ranks, dev_ranks, sizeof ranks, cudaMemcpyDeviceToHost)) {
    printf("%s\n", cudaGetErrorString(cudaGetLastError()));
    return 1;
  }
  for (int i = 0; i < n; ++i) {
    int sum = 0, rank = 0;
    for (int k = i / 8 * 8; k < i / 8 * 8 + 8; ++k)
      sum += in[k];
    for (int k = i / 32 * 32; k < i; ++k)
      rank += in[k] % 2;
    if (tiles[i / 8] != sum || (in[i] % 2 && ranks[i] != rank)) {
      printf("%d: tile %d (%d), rank %d (%d)\n", i, tiles[i / 8], sum, ranks[i],
             rank);
      return 1;
    }
  }

  int cooperative = 0;
  cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, 0);
  if (cooperative) {
    int count = n;
    void* arguments[] = {&dev_in, &count};
    cudaError_t e = cudaLaunchCooperativeKernel((const void*)in_grid, n / 64,
                                                64, arguments, 0, 0);
    int out[n];
    if (e == cudaSuccess)
      e = cudaMemcpy(out, dev_in, sizeof out, cudaMemcpyDeviceToHost);
    if (e != cudaSuccess) {
      printf("cooperative launch: %s\n", cudaGetErrorString(e));
      return 1;
    }
    for (int i = 0; i < n; ++i) {
      if (out[i] != in[i] + 4) { // four steps of 64 lead around the 256
        printf("grid: %d is %d, not %d\n", i, out[i], in[i] + 4);
        return 1;
      }
    }
  }
  printf("ok\n");
}
