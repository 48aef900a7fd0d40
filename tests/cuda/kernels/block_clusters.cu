// Clusters of thread blocks: a block's position in its cluster, shared memory
// of the other blocks, and their common barrier.
// nvcc: -arch=compute_90 -std=c++17
#include "../check.hpp"

#include <cooperative_groups.h>
#include <vector>

namespace cg = cooperative_groups;

template <class... Kernel, class... Arguments>
static cudaError_t launch(void (*kernel)(Kernel...), dim3 grid, dim3 block,
                          dim3 cluster, std::size_t shared,
                          Arguments... arguments) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {cluster.x, cluster.y, cluster.z};
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

#define REGISTER(out, name) asm("mov.u32 %0, %%" name ";" : "=r"(out))

struct place {
  unsigned cluster[3], clusters[3], in_cluster[3], blocks[3];
  unsigned rank, size, asked;
  bool agrees; // whether it agrees with cooperative groups
};

__global__ void where(place* out) {
  place p;
  REGISTER(p.cluster[0], "clusterid.x");
  REGISTER(p.cluster[1], "clusterid.y");
  REGISTER(p.cluster[2], "clusterid.z");
  REGISTER(p.clusters[0], "nclusterid.x");
  REGISTER(p.clusters[1], "nclusterid.y");
  REGISTER(p.clusters[2], "nclusterid.z");
  REGISTER(p.in_cluster[0], "cluster_ctaid.x");
  REGISTER(p.in_cluster[1], "cluster_ctaid.y");
  REGISTER(p.in_cluster[2], "cluster_ctaid.z");
  REGISTER(p.blocks[0], "cluster_nctaid.x");
  REGISTER(p.blocks[1], "cluster_nctaid.y");
  REGISTER(p.blocks[2], "cluster_nctaid.z");
  REGISTER(p.rank, "cluster_ctarank");
  REGISTER(p.size, "cluster_nctarank");
  asm("{ .reg .pred p; mov.pred p, %%is_explicit_cluster;\n"
      "  selp.u32 %0, 1, 0, p; }"
      : "=r"(p.asked));
  auto group = cg::this_cluster();
  p.agrees = group.block_rank() == p.rank && group.num_blocks() == p.size &&
             group.dim_blocks().y == p.blocks[1] &&
             group.block_index().x == p.in_cluster[0] &&
             group.num_threads() == p.size * blockDim.x &&
             group.thread_rank() == p.rank * blockDim.x + threadIdx.x;
  if (threadIdx.x == 1)
    out[blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z)] = p;
}

static void check_places(dim3 grid, dim3 cluster, bool asked) {
  auto blocks = grid.x * grid.y * grid.z;
  place* dev;
  CHECK(cudaMalloc(&dev, blocks * sizeof(place)));
  if (asked)
    CHECK(launch(where, grid, 32, cluster, 0, dev));
  else
    where<<<grid, 32>>>(dev);
  std::vector<place> got(blocks);
  CHECK(cudaMemcpy(got.data(), dev, blocks * sizeof(place),
                   cudaMemcpyDeviceToHost));
  CHECK(cudaFree(dev));
  unsigned g[3] = {grid.x, grid.y, grid.z};
  unsigned c[3] = {cluster.x, cluster.y, cluster.z};
  for (unsigned b = 0; b < blocks; ++b) {
    const place& p = got[b];
    unsigned at[3] = {b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};
    for (int i = 0; i < 3; ++i) {
      EXPECT(p.blocks[i] == c[i] && p.clusters[i] == g[i] / c[i]);
      EXPECT(p.cluster[i] == at[i] / c[i]);
      EXPECT(p.in_cluster[i] == at[i] % c[i]);
    }
    EXPECT(p.size == c[0] * c[1] * c[2]);
    EXPECT(p.rank ==
           at[0] % c[0] + c[0] * (at[1] % c[1] + c[1] * (at[2] % c[2])));
    EXPECT(p.asked == (asked ? 1u : 0u) && p.agrees);
  }
}

// Computes a histogram whose bins are distributed over the blocks of a cluster.
__global__ void histogram(const int* in, int n, int bins_each, int* out) {
  extern __shared__ int bins[];
  auto group = cg::this_cluster();
  for (int i = threadIdx.x; i < bins_each; i += blockDim.x)
    bins[i] = 0;
  group.sync();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += gridDim.x * blockDim.x) {
    int bin = in[i];
    int* there = group.map_shared_rank(bins, bin / bins_each);
    atomicAdd(there + bin % bins_each, 1);
  }
  group.sync();
  for (int i = threadIdx.x; i < bins_each; i += blockDim.x)
    atomicAdd(out + group.block_rank() * bins_each + i, bins[i]);
}

static void check_histogram(unsigned cluster) {
  constexpr int n = 20000, bins = 1024;
  std::vector<int> in(n), expected(bins), got(bins);
  for (int i = 0; i < n; ++i)
    ++expected[in[i] = int(i * 2654435761u >> 22)];
  int *dev_in, *dev_out;
  CHECK(cudaMalloc(&dev_in, n * 4));
  CHECK(cudaMalloc(&dev_out, bins * 4));
  CHECK(cudaMemcpy(dev_in, in.data(), n * 4, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(dev_out, 0, bins * 4));
  int each = bins / int(cluster);
  CHECK(
      launch(histogram, 16, 128, cluster, each * 4, dev_in, n, each, dev_out));
  CHECK(cudaMemcpy(got.data(), dev_out, bins * 4, cudaMemcpyDeviceToHost));
  EXPECT(got == expected);
  CHECK(cudaFree(dev_in));
  CHECK(cudaFree(dev_out));
}

// Passes values around a ring of blocks, in a cluster that the kernel
// specifies. A block arrives at the barrier, does other work, and waits later.
__global__ void __cluster_dims__(4, 1, 1) ring(int rounds, int* out) {
  __shared__ int box[2][64];
  auto group = cg::this_cluster();
  unsigned next = (group.block_rank() + 1) % group.num_blocks();
  int mine = blockIdx.x * 1000 + threadIdx.x;
  for (int r = 0; r < rounds; ++r) {
    group.map_shared_rank(box[r % 2], next)[threadIdx.x] = mine;
    auto token = group.barrier_arrive();
    int busy = 0;
    for (unsigned i = 0; i < group.block_rank() * 20; ++i)
      busy += __popc(i * mine);
    group.barrier_wait(std::move(token));
    mine = box[r % 2][threadIdx.x] + (busy < 0);
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = mine;
  group.sync();
}

static void check_ring() {
  constexpr int blocks = 24, threads = 64, rounds = 11;
  std::vector<int> got(blocks * threads);
  int* dev;
  CHECK(cudaMalloc(&dev, got.size() * 4));
  ring<<<blocks, threads>>>(rounds, dev);
  CHECK(cudaMemcpy(got.data(), dev, got.size() * 4, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(dev));
  for (int b = 0; b < blocks; ++b)
    for (int t = 0; t < threads; ++t) {
      int from = b / 4 * 4 + (b % 4 + 4 * rounds - rounds) % 4;
      EXPECT(got[b * threads + t] == from * 1000 + t);
    }
}

// Returns the address, in the window of shared memory, at which another block
// of the cluster has the same variable.
__device__ unsigned at_block(unsigned here, unsigned rank) {
  unsigned there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(there)
      : "r"(here), "r"(rank));
  return there;
}

// Makes the barrier's first phase end when so many bytes have arrived.
__device__ void expect_bytes(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier));
  asm volatile("fence.mbarrier_init.release.cluster;");
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
      "r"(bytes));
}

__device__ void await_bytes(unsigned barrier) {
  unsigned done = 0;
  while (!done)
    asm volatile("{ .reg .pred p;\n"
                 "  mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n"
                 "  selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(barrier)
                 : "memory");
}

// Tests addresses in the window of shared memory, and generic addresses that
// one block passes to another.
__global__ void addresses(unsigned* out) {
  __shared__ unsigned value, sum;
  __shared__ unsigned* of_others[8];
  auto group = cg::this_cluster();
  unsigned rank = group.block_rank(), size = group.num_blocks();
  unsigned peer = (rank + 1) % size, got, ranks, own, any, old;
  value = 100 + rank;
  sum = 0;
  for (unsigned r = 0; r < size; ++r)
    group.map_shared_rank(of_others, r)[rank] = &value;
  group.sync();
  unsigned here = __cvta_generic_to_shared(&value), of_there;
  unsigned there = at_block(here, peer), back = at_block(there, rank);
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(got) : "r"(there));
  asm("getctarank.shared::cluster.u32 %0, %1;" : "=r"(of_there) : "r"(there));
  asm("getctarank.shared::cluster.u32 %0, %1;" : "=r"(ranks) : "r"(back));
  ranks += 10 * of_there + 100 * group.query_shared_rank(of_others[peer]) +
           1000 * group.query_shared_rank(&value);
  asm("{ .reg .pred p; isspacep.shared::cta p, %1;\n"
      "  selp.u32 %0, 1, 0, p; }"
      : "=r"(own)
      : "l"(of_others[peer]));
  asm("{ .reg .pred p; isspacep.shared::cluster p, %1;\n"
      "  selp.u32 %0, 1, 0, p; }"
      : "=r"(any)
      : "l"(of_others[peer]));
  unsigned sum_there = at_block(__cvta_generic_to_shared(&sum), peer);
  asm volatile("atom.shared::cluster.add.u32 %0, [%1], %2;"
               : "=r"(old)
               : "r"(sum_there), "r"(rank + 1)
               : "memory");
  group.sync();
  unsigned through = *of_others[peer];
  bool same = group.map_shared_rank(&value, rank) == &value;
  group.sync();
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(there), "r"(rank)
               : "memory");
  group.sync();
  unsigned row[] = {got, ranks, own, any, sum, through, same, value};
  for (int i = 0; i < 8; ++i)
    out[blockIdx.x * 8 + i] = row[i];
}

static void check_addresses() {
  constexpr unsigned size = 4, blocks = 8;
  unsigned *dev, got[blocks * 8];
  CHECK(cudaMalloc(&dev, sizeof got));
  CHECK(launch(addresses, blocks, 1, size, 0, dev));
  CHECK(cudaMemcpy(got, dev, sizeof got, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(dev));
  for (unsigned b = 0; b < blocks; ++b) {
    unsigned rank = b % size, peer = (rank + 1) % size;
    unsigned last = (rank + size - 1) % size;
    const unsigned* row = got + 8 * b;
    EXPECT(row[0] == 100 + peer);
    EXPECT(row[1] == rank + 10 * peer + 100 * peer + 1000 * rank);
    EXPECT(row[2] == 0 && row[3] == 1);
    EXPECT(row[4] == last + 1);
    EXPECT(row[5] == 100 + peer && row[6] == 1);
    EXPECT(row[7] == last);
  }
}

// A barrier does not wait for exited threads, even if they had arrived before.
__global__ void leavers(int* out) {
  __shared__ int flag;
  auto group = cg::this_cluster();
  if (threadIdx.x == 0)
    flag = 0;
  group.sync();
  if (threadIdx.x % 3 == 1)
    return;
  if (group.block_rank() == 0 && threadIdx.x < 32)
    atomicAdd(group.map_shared_rank(&flag, group.num_blocks() - 1), 1);
  asm volatile("barrier.cluster.arrive;");
  asm volatile("barrier.cluster.wait;");
  if (group.block_rank() == group.num_blocks() - 1 && threadIdx.x == 0)
    out[blockIdx.x / group.num_blocks()] = flag;
  // In the last phase some threads arrive and exit without waiting.
  asm volatile("barrier.cluster.arrive;");
  if (threadIdx.x % 3 == 2)
    return;
  asm volatile("barrier.cluster.wait;");
}

static void check_leavers() {
  int *dev, got[3];
  CHECK(cudaMalloc(&dev, sizeof got));
  CHECK(launch(leavers, 24, 100, 8, 0, dev));
  CHECK(cudaMemcpy(got, dev, sizeof got, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(dev));
  for (int x : got)
    EXPECT(x == 21); // 21 of 32 threads did not exit.
}

// Sends a tile from one block to another, and signals the other's barrier in
// memory.
__global__ void send(int* out) {
  __shared__ alignas(16) int mine[128];
  __shared__ alignas(16) int theirs[128];
  __shared__ alignas(8) unsigned long long bar;
  auto group = cg::this_cluster();
  unsigned at = __cvta_generic_to_shared(&bar);
  if (threadIdx.x == 0) {
    expect_bytes(at, 512);
  }
  mine[threadIdx.x] = blockIdx.x * 1000 + threadIdx.x;
  asm volatile("fence.proxy.async.shared::cta;");
  group.sync();
  if (threadIdx.x == 0) {
    unsigned peer = group.block_rank() ^ 1;
    unsigned to = at_block(__cvta_generic_to_shared(theirs), peer);
    unsigned bar_there = at_block(at, peer);
    asm volatile(
        "cp.async.bulk.shared::cluster.shared::cta"
        ".mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];" ::"r"(to),
        "r"(unsigned(__cvta_generic_to_shared(mine))), "r"(bar_there)
        : "memory");
  }
  await_bytes(at);
  out[blockIdx.x * blockDim.x + threadIdx.x] = theirs[threadIdx.x];
  group.sync();
}

static void check_send() {
  constexpr int blocks = 10, threads = 128;
  int *dev, got[blocks * threads];
  CHECK(cudaMalloc(&dev, sizeof got));
  CHECK(launch(send, blocks, threads, 2, 0, dev));
  CHECK(cudaMemcpy(got, dev, sizeof got, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(dev));
  for (int i = 0; i < blocks * threads; ++i)
    EXPECT(got[i] == (i / threads ^ 1) * 1000 + i % threads);
}

// The first block copies a row to all blocks at once, and each block sends a
// word to the next one. Both signal a barrier in memory.
__global__ void spread(const int* in, int* out) {
  __shared__ alignas(16) int row[64];
  __shared__ alignas(8) unsigned long long bar, word;
  auto group = cg::this_cluster();
  unsigned size = group.num_blocks(), rank = group.block_rank();
  unsigned at = __cvta_generic_to_shared(&bar);
  if (threadIdx.x == 0) {
    word = 0;
    expect_bytes(at, int(sizeof row) + 8 + 4);
  }
  group.sync();
  if (group.thread_rank() == 0)
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx"
                 "::bytes.multicast::cluster [%0], [%1], 256, [%2], %3;" ::"r"(
                     unsigned(__cvta_generic_to_shared(row))),
                 "l"(in), "r"(at), "h"((unsigned short)((1 << size) - 1))
                 : "memory");
  if (threadIdx.x == 0) {
    unsigned next = (rank + 1) % size;
    unsigned to = at_block(__cvta_generic_to_shared(&word), next);
    unsigned bar_there = at_block(at, next);
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 "
                 "[%0], %1, [%2];" ::"r"(to),
                 "l"(1000ll * (rank + 1)), "r"(bar_there)
                 : "memory");
    asm volatile(
        "red.async.relaxed.cluster.shared::cluster"
        ".mbarrier::complete_tx::bytes.add.u32 [%0], %1, [%2];" ::"r"(to + 4),
        "r"(7), "r"(bar_there)
        : "memory");
  }
  await_bytes(at);
  out[blockIdx.x * 64 + threadIdx.x] = row[threadIdx.x] + int(word);
  group.sync();
}

static void check_spread() {
  constexpr int blocks = 8, threads = 64, size = 4;
  int *dev, in[threads], got[blocks * threads];
  for (int i = 0; i < threads; ++i)
    in[i] = i * i;
  CHECK(cudaMalloc(&dev, sizeof in + sizeof got));
  CHECK(cudaMemcpy(dev, in, sizeof in, cudaMemcpyHostToDevice));
  CHECK(
      launch(spread, blocks, threads, size, 0, (const int*)dev, dev + threads));
  CHECK(cudaMemcpy(got, dev + threads, sizeof got, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(dev));
  for (int i = 0; i < blocks * threads; ++i) {
    int last = (i / threads + size - 1) % size;
    EXPECT(got[i] == in[i % threads] + 1000 * (last + 1));
  }
}

// Computes the sum over a cluster, in its first block.
__global__ void reduce(const float* in, float* out) {
  __shared__ float part;
  auto group = cg::this_cluster();
  auto block = cg::this_thread_block();
  if (block.thread_rank() == 0)
    part = 0;
  block.sync();
  atomicAdd(&part, in[blockIdx.x * blockDim.x + threadIdx.x]);
  group.sync();
  if (group.thread_rank() == 0) {
    float sum = 0;
    for (unsigned r = 0; r < group.num_blocks(); ++r)
      sum += *group.map_shared_rank(&part, r);
    out[blockIdx.x / group.num_blocks()] = sum;
  }
  group.sync();
}

static void check_reduce(unsigned cluster) {
  constexpr unsigned blocks = 96, threads = 96;
  std::vector<float> in(blocks * threads), got(blocks / cluster);
  for (unsigned i = 0; i < in.size(); ++i)
    in[i] = float(i % 17);
  float *dev_in, *dev_out;
  CHECK(cudaMalloc(&dev_in, in.size() * 4));
  CHECK(cudaMalloc(&dev_out, got.size() * 4));
  CHECK(cudaMemcpy(dev_in, in.data(), in.size() * 4, cudaMemcpyHostToDevice));
  CHECK(launch(reduce, blocks, threads, cluster, 0, dev_in, dev_out));
  CHECK(
      cudaMemcpy(got.data(), dev_out, got.size() * 4, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(dev_in));
  CHECK(cudaFree(dev_out));
  for (unsigned k = 0; k < got.size(); ++k) {
    float sum = 0;
    for (unsigned i = 0; i < cluster * threads; ++i)
      sum += in[k * cluster * threads + i];
    EXPECT(got[k] == sum);
  }
}

int main() {
  check_places({6, 4, 2}, {1, 1, 1}, false);
  check_places({6, 4, 2}, {1, 1, 1}, true);
  check_places({6, 4, 2}, {2, 1, 1}, true);
  check_places({6, 4, 2}, {1, 4, 1}, true);
  check_places({6, 4, 2}, {2, 2, 2}, true);
  check_histogram(1);
  check_histogram(2);
  check_histogram(8);
  check_ring();
  check_addresses();
  check_leavers();
  check_send();
  check_spread();
  for (unsigned cluster : {1u, 2u, 3u, 8u})
    check_reduce(cluster);
  CHECK(cudaFuncSetAttribute(
      reduce, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  check_reduce(16);
  std::printf("ok\n");
}
