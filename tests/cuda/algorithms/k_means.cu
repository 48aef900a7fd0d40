// Clustering as data-mining samples do it: structures of arrays, centres in
// constant memory, partial sums in shared memory, convergence on the host.
#include <cmath>
#include <cstdio>
#include <vector>

constexpr int dimensions = 4, clusters = 8;

struct centre {
  float at[dimensions];
};
__constant__ centre centres[clusters];

struct sums {
  float at[clusters][dimensions];
  int count[clusters];
  int moved;
};

__global__ void __launch_bounds__(256, 2)
    assign(const float* __restrict__ points, int n, int* membership,
           sums* out) {
  __shared__ sums mine;
  for (int i = threadIdx.x; i < int(sizeof mine / 4); i += blockDim.x)
    reinterpret_cast<int*>(&mine)[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += gridDim.x * blockDim.x) {
    float x[dimensions], least = INFINITY;
    int nearest = 0;
#pragma unroll
    for (int d = 0; d < dimensions; ++d)
      x[d] = points[d * n + i];
    for (int c = 0; c < clusters; ++c) {
      float distance = 0;
#pragma unroll
      for (int d = 0; d < dimensions; ++d)
        distance += (x[d] - centres[c].at[d]) * (x[d] - centres[c].at[d]);
      if (distance < least) {
        least = distance;
        nearest = c;
      }
    }
    if (membership[i] != nearest) {
      membership[i] = nearest;
      atomicAdd(&mine.moved, 1);
    }
    atomicAdd(&mine.count[nearest], 1);
#pragma unroll
    for (int d = 0; d < dimensions; ++d)
      atomicAdd(&mine.at[nearest][d], x[d]);
  }
  __syncthreads();
  if (threadIdx.x < clusters) {
    int c = threadIdx.x;
    atomicAdd(&out->count[c], mine.count[c]);
    for (int d = 0; d < dimensions; ++d)
      atomicAdd(&out->at[c][d], mine.at[c][d]);
    if (c == 0)
      atomicAdd(&out->moved, mine.moved);
  }
}

int main() {
  constexpr int n = 40000;
  std::vector<float> points(n * dimensions);
  std::vector<int> origin(n), got(n);
  unsigned seed = 7;
  auto random = [&] {
    seed = seed * 1664525 + 1013904223;
    return float(seed >> 8) / (1 << 24);
  };
  // These are eight separate clouds at the corners of a box.
  for (int i = 0; i < n; ++i) {
    origin[i] = int(random() * clusters);
    for (int d = 0; d < dimensions; ++d)
      points[d * n + i] =
          (d < 3 && origin[i] >> d & 1 ? 10.f : 0.f) + random() - 0.5f;
  }
  std::vector<centre> now(clusters);
  for (int c = 0; c < clusters; ++c)
    for (int d = 0; d < dimensions; ++d)
      now[c].at[d] = d < 3 && c >> d & 1 ? 6.f : 3.f;
  float* dev_points;
  int* membership;
  sums *dev_sums, s;
  if (cudaMalloc(&dev_points, points.size() * 4) ||
      cudaMalloc(&membership, n * 4) || cudaMalloc(&dev_sums, sizeof s))
    return 1;
  cudaFuncSetCacheConfig(assign, cudaFuncCachePreferShared);
  cudaMemcpy(dev_points, points.data(), points.size() * 4,
             cudaMemcpyHostToDevice);
  cudaMemset(membership, 0xff, n * 4);
  int grid = 0, rounds = 0;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&grid, assign, 256, 0);
  do {
    cudaMemcpyToSymbolAsync(centres, now.data(), sizeof(centre) * clusters, 0,
                            cudaMemcpyHostToDevice, 0);
    cudaMemset(dev_sums, 0, sizeof s);
    assign<<<grid * 4, 256>>>(dev_points, n, membership, dev_sums);
    cudaError_t e = cudaMemcpy(&s, dev_sums, sizeof s, cudaMemcpyDeviceToHost);
    if (e != cudaSuccess) {
      std::printf("%s\n", cudaGetErrorString(e));
      return 1;
    }
    int all = 0;
    for (int c = 0; c < clusters; ++c) {
      all += s.count[c];
      for (int d = 0; d < dimensions && s.count[c] != 0; ++d)
        now[c].at[d] = s.at[c][d] / float(s.count[c]);
    }
    if (all != n) {
      std::printf("%d points in round %d\n", all, rounds);
      return 1;
    }
  } while (s.moved != 0 && ++rounds < 20);
  cudaMemcpy(got.data(), membership, n * 4, cudaMemcpyDeviceToHost);
  for (int i = 0; i < n; ++i)
    if (got[i] != origin[i]) {
      std::printf("point %d is in %d, not %d\n", i, got[i], origin[i]);
      return 1;
    }
  for (int c = 0; c < clusters; ++c)
    for (int d = 0; d < dimensions; ++d)
      if (std::fabs(now[c].at[d] - (d < 3 && c >> d & 1 ? 10 : 0)) > 0.03f) {
        std::printf("centre %d is at %g\n", c, now[c].at[d]);
        return 1;
      }
  std::printf("ok\n");
}
