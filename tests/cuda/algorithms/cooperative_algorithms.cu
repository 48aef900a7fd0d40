// Algorithms of cooperative groups: reduce, scan, partitions, copies, and
// groups of several warps.
// nvcc: -arch=compute_90 -std=c++17
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cstdio>
#include <vector>

namespace cg = cooperative_groups;

struct sums {
  int tile, block_max, labelled, binary, coalesced, scanned, inclusive;
  double wide;
};

__global__ void algorithms(const int* in, sums* out, int* total) {
  auto block = cg::this_thread_block();
  int i = block.group_index().x * block.size() + block.thread_rank();
  int x = in[i];
  sums s = {};
  auto tile = cg::tiled_partition<16>(block);
  s.tile = cg::reduce(tile, x, cg::plus<int>());
  s.wide = cg::reduce(tile, x * 0.5, cg::plus<double>());
  s.scanned = cg::exclusive_scan(tile, x, cg::plus<int>());
  s.inclusive =
      cg::inclusive_scan(tile, x, [](int a, int b) { return a < b ? b : a; });
  auto warp = cg::tiled_partition<32>(block);
  auto labelled = cg::labeled_partition(warp, x % 5);
  s.labelled = cg::reduce(labelled, x, cg::plus<int>());
  auto halves = cg::binary_partition(warp, x % 2 == 0);
  s.binary = halves.size() * 100 + halves.thread_rank();
  if (x % 3 != 0) {
    auto together = cg::coalesced_threads();
    s.coalesced = cg::reduce(together, x, cg::less<int>());
    cg::invoke_one(together, [&] { atomicAdd(total, together.size()); });
  }
  s.block_max = cg::reduce(warp, x, cg::greater<int>());
  out[i] = s;
}

// A tile larger than a warp needs memory of the block.
__global__ void large_tiles(const int* in, int* sums, int* prefix, int* any) {
  __shared__ cg::block_tile_memory<256> memory;
  auto block = cg::this_thread_block(memory);
  auto tile = cg::tiled_partition<128>(block);
  int i = block.group_index().x * block.size() + block.thread_rank();
  int sum = cg::reduce(tile, in[i], cg::plus<int>());
  prefix[i] = cg::exclusive_scan(tile, in[i], cg::plus<int>());
  any[i] = tile.any(in[i] == 7) * 2 + tile.all(in[i] >= 0);
  if (tile.thread_rank() == 0)
    sums[i / 128] = sum;
}

__global__ void copied(const int* in, int* out, int count) {
  extern __shared__ int staged[];
  auto block = cg::this_thread_block();
  const int* mine = in + blockIdx.x * count;
  cg::memcpy_async(block, staged, mine, sizeof(int) * count);
  cg::wait(block);
  for (int i = block.thread_rank(); i < count; i += block.size())
    out[blockIdx.x * count + i] = staged[count - 1 - i];
  // This copies in two parts, and waits for the first part first.
  block.sync();
  cg::memcpy_async(block, staged, mine, sizeof(int) * 64);
  cg::memcpy_async(block, staged + 64, mine + 64, sizeof(int) * (count - 64));
  cg::wait_prior<1>(block);
  int early = staged[block.thread_rank() % 64];
  cg::wait(block);
  out[blockIdx.x * count] += early - staged[block.thread_rank() % 64];
}

// Uses the whole grid several times. All threads get the reduction's result.
__global__ void whole_grid(const int* in, int n, int* partial, int* out) {
  auto grid = cg::this_grid();
  auto block = cg::this_thread_block();
  int sum = 0;
  for (int i = grid.thread_rank(); i < n; i += grid.size())
    sum += in[i];
  auto warp = cg::tiled_partition<32>(block);
  cg::reduce_update_async(
      warp, cuda::atomic_ref<int, cuda::thread_scope_device>(*partial), sum,
      cg::plus<int>());
  grid.sync();
  auto token = grid.barrier_arrive();
  int total = *reinterpret_cast<volatile int*>(partial);
  grid.barrier_wait(std::move(token));
  out[grid.thread_rank()] =
      total + grid.block_rank() * (grid.num_threads() / n);
}

static int failures = 0;
static void expect(bool ok, const char* what, int i) {
  if (ok)
    return;
  if (++failures < 10)
    std::printf("%s, %d: wrong\n", what, i);
}

int main() {
  constexpr int n = 1024;
  std::vector<int> in(n);
  for (int i = 0; i < n; ++i)
    in[i] = i * i % 97;
  int *dev_in, *dev_out, *dev_total;
  sums* dev_sums;
  if (cudaMalloc(&dev_in, n * 4) || cudaMalloc(&dev_out, 4 * n * 4) ||
      cudaMalloc(&dev_sums, n * sizeof(sums)) || cudaMalloc(&dev_total, 4))
    return 1;
  cudaMemcpy(dev_in, in.data(), n * 4, cudaMemcpyHostToDevice);
  cudaMemset(dev_total, 0, 4);

  algorithms<<<n / 128, 128>>>(dev_in, dev_sums, dev_total);
  std::vector<sums> got(n);
  int total = 0, expected_total = 0;
  cudaMemcpy(got.data(), dev_sums, n * sizeof(sums), cudaMemcpyDeviceToHost);
  cudaError_t e = cudaMemcpy(&total, dev_total, 4, cudaMemcpyDeviceToHost);
  if (e != cudaSuccess) {
    std::printf("%s\n", cudaGetErrorString(e));
    return 1;
  }
  for (int i = 0; i < n; ++i) {
    sums s = {};
    int tile = i / 16 * 16, warp = i / 32 * 32;
    for (int k = tile; k < tile + 16; ++k) {
      s.tile += in[k];
      s.wide += in[k] * 0.5;
      s.scanned += k < i ? in[k] : 0;
      s.inclusive = k <= i && in[k] > s.inclusive ? in[k] : s.inclusive;
    }
    int least = 1 << 30, same_half = 0, rank = 0;
    for (int k = warp; k < warp + 32; ++k) {
      s.labelled += in[k] % 5 == in[i] % 5 ? in[k] : 0;
      same_half += in[k] % 2 == in[i] % 2;
      rank += k < i && in[k] % 2 == in[i] % 2;
      least = in[k] % 3 != 0 && in[k] < least ? in[k] : least;
      s.block_max = in[k] > s.block_max ? in[k] : s.block_max;
    }
    s.binary = same_half * 100 + rank;
    s.coalesced = in[i] % 3 != 0 ? least : 0;
    expected_total += in[i] % 3 != 0;
    expect(got[i].tile == s.tile, "sum of a tile", i);
    expect(got[i].wide == s.wide, "sum of doubles", i);
    expect(got[i].scanned == s.scanned, "exclusive scan", i);
    expect(got[i].inclusive == s.inclusive, "inclusive scan", i);
    expect(got[i].labelled == s.labelled, "labelled partition", i);
    expect(got[i].binary == s.binary, "binary partition", i);
    expect(got[i].coalesced == s.coalesced, "coalesced minimum", i);
    expect(got[i].block_max == s.block_max, "maximum of a warp", i);
  }
  expect(total == expected_total, "invoke_one", 0);

  large_tiles<<<n / 256, 256>>>(dev_in, dev_out, dev_out + n, dev_out + 2 * n);
  std::vector<int> out(3 * n);
  e = cudaMemcpy(out.data(), dev_out, 3 * n * 4, cudaMemcpyDeviceToHost);
  if (e != cudaSuccess) {
    std::printf("large tiles: %s\n", cudaGetErrorString(e));
    return 1;
  }
  for (int t = 0; t < n / 128; ++t) {
    int sum = 0, seven = 0;
    for (int i = t * 128; i < (t + 1) * 128; ++i) {
      expect(out[n + i] == sum, "scan of a large tile", i);
      sum += in[i];
      seven |= in[i] == 7;
    }
    expect(out[t] == sum, "sum of a large tile", t);
    expect(out[2 * n + t * 128 + 77] == seven * 2 + 1, "any of a large tile",
           t);
  }

  copied<<<n / 256, 96, 1024>>>(dev_in, dev_out, 256);
  cudaMemcpy(out.data(), dev_out, n * 4, cudaMemcpyDeviceToHost);
  for (int i = 0; i < n; ++i)
    expect(out[i] == in[i / 256 * 256 + 255 - i % 256], "memcpy_async", i);

  cudaMemset(dev_total, 0, 4);
  int count = n;
  void* arguments[] = {&dev_in, &count, &dev_total, &dev_out};
  e = cudaLaunchCooperativeKernel((const void*)whole_grid, 6, 64, arguments, 0,
                                  0);
  cudaMemcpy(out.data(), dev_out, 6 * 64 * 4, cudaMemcpyDeviceToHost);
  int sum = 0;
  for (int x : in)
    sum += x;
  for (int i = 0; i < 6 * 64; ++i)
    expect(e == cudaSuccess && out[i] == sum, "whole grid", i);
  if (failures != 0)
    return 1;
  std::printf("ok\n");
}
