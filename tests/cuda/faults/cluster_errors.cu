// Refused clusters of thread blocks, queries about clusters, and kernels that
// access a block which does not exist. An H100 gave the same results.
// nvcc: -arch=compute_90 -std=c++17
#include "../check.hpp"

#include <cooperative_groups.h>
#include <cstring>

namespace cg = cooperative_groups;

__global__ void plain(int* out) {
  *out = 1;
}
__global__ void chosen(int* out) {
  *out = 2;
}
__global__ void __cluster_dims__(2, 1, 1) of_two(int* out) {
  *out = 3;
}
__global__ void __launch_bounds__(128, 1, 4) up_to_four(int* out) {
  *out = 4;
}

// Reads from a block that is not in the cluster, or has ended.
__global__ void reach(int* out, unsigned rank, bool leave, volatile int* gone) {
  __shared__ int value;
  value = 3;
  auto group = cg::this_cluster();
  group.sync();
  if (leave && group.block_rank() == 1) {
    __threadfence();
    *gone = 1;
    return;
  }
  if (leave) {
    while (*gone == 0) {
    }
    for (long long begin = clock64(); clock64() - begin < 100000000;) {
    }
  }
  *out = *group.map_shared_rank(&value, rank);
}

static int* out;
static cudaLaunchAttribute attributes[2];

static cudaLaunchConfig_t shape(dim3 grid, int cluster, unsigned block = 128) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.attrs = attributes;
  if (cluster >= 0) {
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim = {unsigned(cluster), 1, 1};
    config.numAttrs = 1;
  }
  return config;
}

static cudaError_t launch(void (*kernel)(int*), unsigned grid, int cluster) {
  auto config = shape(grid, cluster);
  auto code = cudaLaunchKernelEx(&config, kernel, out);
  (void)cudaGetLastError();
  CHECK(cudaDeviceSynchronize()); // A refusal is not sticky.
  return code;
}

struct occupancy {
  cudaError_t code;
  int clusters = -1, size = -1;
};

static occupancy ask(void (*kernel)(int*), const cudaLaunchConfig_t& config) {
  occupancy x;
  x.code = cudaOccupancyMaxActiveClusters(&x.clusters, kernel, &config);
  auto code = cudaOccupancyMaxPotentialClusterSize(&x.size, kernel, &config);
  (void)cudaGetLastError();
  EXPECT(code == x.code);
  return x;
}

static void launches() {
  constexpr auto ok = cudaSuccess;
  constexpr auto bad = cudaErrorInvalidClusterSize;
  EXPECT(launch(plain, 4, -1) == ok && launch(plain, 4, 1) == ok);
  EXPECT(launch(plain, 4, 2) == ok && launch(plain, 16, 8) == ok);
  EXPECT(launch(plain, 4, 3) == bad); // not a multiple
  EXPECT(launch(plain, 16, 0) == bad);
  EXPECT(launch(plain, 16, 16) == bad);
  CHECK(cudaFuncSetAttribute(
      plain, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  EXPECT(launch(plain, 16, 16) == ok && launch(plain, 48, 12) == ok);
  EXPECT(launch(plain, 32, 32) == bad);
  for (unsigned grid : {2u, 3u, 4u}) {
    EXPECT(launch(of_two, grid, -1) == (grid == 3 ? bad : ok));
    EXPECT(launch(of_two, grid, 2) == (grid == 3 ? bad : ok));
    EXPECT(launch(of_two, grid, 1) == bad && launch(of_two, grid, 4) == bad);
  }
  EXPECT(launch(up_to_four, 16, -1) == ok && launch(up_to_four, 16, 4) == ok);
  // This combines clusters with a cooperative launch.
  auto config = shape(4, 2);
  attributes[1].id = cudaLaunchAttributeCooperative;
  attributes[1].val.cooperative = 1;
  config.numAttrs = 2;
  CHECK(cudaLaunchKernelEx(&config, plain, out));
  CHECK(cudaDeviceSynchronize());
}

static void settings() {
  constexpr auto width = cudaFuncAttributeRequiredClusterWidth;
  constexpr auto height = cudaFuncAttributeRequiredClusterHeight;
  constexpr auto depth = cudaFuncAttributeRequiredClusterDepth;
  cudaFuncAttributes a;
  CHECK(cudaFuncGetAttributes(&a, of_two));
  EXPECT(a.clusterDimMustBeSet == 1 && a.requiredClusterWidth == 2);
  EXPECT(a.requiredClusterHeight == 1 && a.requiredClusterDepth == 1);
  EXPECT(cudaFuncSetAttribute(of_two, width, 4) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
  CHECK(cudaFuncGetAttributes(&a, of_two));
  EXPECT(a.requiredClusterWidth == 2);
  CHECK(cudaFuncGetAttributes(&a, chosen));
  EXPECT(a.clusterDimMustBeSet == 0 && a.requiredClusterWidth == 0);
  EXPECT(a.nonPortableClusterSizeAllowed == 0);
  CHECK(cudaFuncSetAttribute(chosen, width, 2));
  EXPECT(launch(chosen, 4, -1) == cudaErrorInvalidClusterSize); // the others: 0
  CHECK(cudaFuncSetAttribute(chosen, height, 1));
  CHECK(cudaFuncSetAttribute(chosen, depth, 1));
  CHECK(cudaFuncGetAttributes(&a, chosen));
  EXPECT(a.clusterDimMustBeSet == 0 && a.requiredClusterWidth == 2);
  EXPECT(launch(chosen, 4, -1) == cudaSuccess);
  EXPECT(launch(chosen, 4, 2) == cudaSuccess);
  EXPECT(launch(chosen, 3, -1) == cudaErrorInvalidClusterSize);
  EXPECT(launch(chosen, 4, 1) == cudaErrorInvalidClusterSize);
  EXPECT(launch(chosen, 4, 4) == cudaErrorInvalidClusterSize);
}

static void questions() {
  int device = 0, clusters = 0;
  CHECK(cudaGetDevice(&device));
  CHECK(cudaDeviceGetAttribute(&clusters, cudaDevAttrClusterLaunch, device));
  EXPECT(clusters == 1);
  // Since launches(), `plain` may have more than the portable size.
  auto x = ask(plain, shape(96, -1));
  EXPECT(x.code == cudaSuccess && x.clusters == 0 && x.size == 16);
  auto of_one = ask(plain, shape(96, 1));
  auto of_four = ask(plain, shape(96, 4));
  EXPECT(of_one.code == cudaSuccess && of_four.code == cudaSuccess);
  EXPECT(of_four.clusters > 0 && of_four.clusters <= of_one.clusters);
  EXPECT(of_four.size == 16);
  x = ask(plain, shape(96, 32));
  EXPECT(x.code == cudaSuccess && x.clusters == 0 && x.size == 16);
  EXPECT(ask(plain, shape(3, 2)).code == cudaErrorInvalidClusterSize);
  x = ask(plain, shape(4, 2, 2048)); // no such block
  EXPECT(x.code == cudaSuccess && x.clusters == 0 && x.size == 0);
  EXPECT(ask(up_to_four, shape(96, 4)).size == 8);
  EXPECT(ask(up_to_four, shape(96, 16)).code == cudaErrorInvalidClusterSize);
  EXPECT(ask(of_two, shape(96, -1)).clusters > 0);
  EXPECT(ask(of_two, shape(96, 2)).clusters > 0);
  EXPECT(ask(of_two, shape(96, 4)).code == cudaErrorInvalidClusterSize);
}

/// Causes a fault, which ends the context, so it is possible once in each
/// process.
static void fault(bool leaves) {
  int* gone;
  CHECK(cudaMalloc(&gone, 4));
  CHECK(cudaMemset(gone, 0, 4));
  auto config = shape(2, 2, 32);
  CHECK(cudaLaunchKernelEx(&config, reach, out, leaves ? 1u : 5u, leaves,
                           static_cast<volatile int*>(gone)));
  EXPECT(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  EXPECT(cudaDeviceSynchronize() == cudaErrorLaunchFailure); // sticky
}

int main(int argc, char** argv) {
  CHECK(cudaMalloc(&out, 64));
  if (argc == 1) {
    launches();
    settings();
    questions();
  } else {
    fault(std::strcmp(argv[1], "gone") == 0);
  }
  std::printf("ok\n");
}
