// Sorts without libraries: bitonic in shared memory beyond 48 KiB, odd-even
// merges, a radix sort made of three kernels, a merge sort by merge paths.
#include <algorithm>
#include <cstdio>
#include <vector>

// Sorts 16384 keys in 64 KiB of one block's shared memory.
__global__ void bitonic(unsigned* keys, int n) {
  extern __shared__ unsigned s[];
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    s[i] = keys[blockIdx.x * n + i];
  for (int k = 2; k <= n; k *= 2)
    for (int j = k / 2; j > 0; j /= 2) {
      __syncthreads();
      for (int i = threadIdx.x; i < n / 2; i += blockDim.x) {
        int a = 2 * i - (i & (j - 1)), b = a + j;
        bool up = (a & k) == 0;
        unsigned x = s[a], y = s[b];
        if ((x > y) == up) {
          s[a] = y;
          s[b] = x;
        }
      }
    }
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    keys[blockIdx.x * n + i] = s[i];
}

// Sorts by Batcher's odd-even merge in registers, with one key per lane.
__global__ void in_a_warp(int* keys) {
  int lane = threadIdx.x % 32, i = blockIdx.x * blockDim.x + threadIdx.x;
  int key = keys[i];
  for (int p = 1; p < 32; p *= 2)
    for (int k = p; k > 0; k /= 2) {
      int first = k % p;
      bool low = lane >= first && (lane - first) / k % 2 == 0;
      int partner = low ? lane + k : lane - k;
      int a = low ? lane : partner;
      bool inside = partner >= 0 && partner < 32 && a >= first &&
                    a / (2 * p) == (a + k) / (2 * p);
      int other = __shfl_sync(0xffffffff, key, inside ? partner : lane);
      if (inside)
        key = low ? min(key, other) : max(key, other);
    }
  keys[i] = key;
}

// Least significant digit first, 4 bits a pass.
constexpr int tile = 1024, digits = 16;
__global__ void count(const unsigned* in, int n, int shift, int* counts) {
  __shared__ int mine[digits];
  if (threadIdx.x < digits)
    mine[threadIdx.x] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < tile && blockIdx.x * tile + i < n;
       i += blockDim.x)
    atomicAdd(&mine[in[blockIdx.x * tile + i] >> shift & (digits - 1)], 1);
  __syncthreads();
  if (threadIdx.x < digits)
    counts[threadIdx.x * gridDim.x + blockIdx.x] = mine[threadIdx.x];
}

__global__ void scan(int* counts, int n) {
  __shared__ int part[1024];
  int each = (n + 1023) / 1024, sum = 0, t = threadIdx.x;
  for (int i = t * each; i < min(n, (t + 1) * each); ++i)
    sum += counts[i];
  part[t] = sum;
  for (int offset = 1; offset < 1024; offset *= 2) {
    __syncthreads();
    int x = t >= offset ? part[t - offset] : 0;
    __syncthreads();
    part[t] += x;
  }
  int before = part[t] - sum;
  for (int i = t * each; i < min(n, (t + 1) * each); ++i) {
    int x = counts[i];
    counts[i] = before;
    before += x;
  }
}

// One warp handles a tile, 32 keys at a time, and ranks lanes with the same
// digit.
__global__ void scatter(const unsigned* in, unsigned* out, int n, int shift,
                        const int* counts) {
  __shared__ int next[digits];
  int lane = threadIdx.x;
  if (lane < digits)
    next[lane] = counts[lane * gridDim.x + blockIdx.x];
  __syncwarp();
  for (int i = blockIdx.x * tile + lane; i < (blockIdx.x + 1) * tile; i += 32) {
    bool inside = i < n;
    unsigned who = __ballot_sync(~0u, inside);
    if (inside) {
      unsigned key = in[i], digit = key >> shift & (digits - 1);
      unsigned same = __match_any_sync(who, digit);
      unsigned rank = __popc(same & ((1u << lane) - 1));
      int base = next[digit];
      __syncwarp(who);
      out[base + rank] = key;
      if (rank == 0)
        next[digit] = base + __popc(same);
    }
    __syncwarp();
  }
}

// Each thread finds its piece of the two runs by a search along the diagonal.
template <class T>
__global__ void merge(const T* in, T* out, int n, int run) {
  constexpr int each = 8;
  int at = (blockIdx.x * blockDim.x + threadIdx.x) * each;
  if (at >= n)
    return;
  int base = at / (2 * run) * 2 * run, diagonal = at - base;
  const T *a = in + base, *b = a + min(run, n - base);
  int na = min(run, n - base), nb = max(0, min(run, n - base - run));
  int low = max(0, diagonal - nb), high = min(diagonal, na);
  while (low < high) {
    int middle = (low + high) / 2;
    if (b[diagonal - 1 - middle] < a[middle])
      high = middle;
    else
      low = middle + 1;
  }
  int i = low, j = diagonal - low;
  for (int k = 0; k < each && diagonal + k < na + nb; ++k)
    out[at + k] = j >= nb || (i < na && !(b[j] < a[i])) ? a[i++] : b[j++];
}

struct record {
  double key;
  int value;
  __device__ bool operator<(const record& x) const { return key < x.key; }
};

int main() {
  constexpr int n = 1 << 15;
  std::vector<unsigned> keys(n);
  for (int i = 0; i < n; ++i)
    keys[i] = unsigned(i) * 2654435761u ^ unsigned(i) << 7;
  unsigned *dev, *spare;
  int* counts;
  if (cudaMalloc(&dev, n * 4) || cudaMalloc(&spare, n * 4) ||
      cudaMalloc(&counts, n * 4))
    return 1;
  auto upload = [&] {
    cudaMemcpy(dev, keys.data(), n * 4, cudaMemcpyHostToDevice);
  };
  auto read = [&](const unsigned* from) {
    std::vector<unsigned> out(n);
    cudaMemcpy(out.data(), from, n * 4, cudaMemcpyDeviceToHost);
    return out;
  };
  auto sorted_by = [&](int run) {
    auto out = keys;
    for (int i = 0; i < n; i += run)
      std::sort(out.begin() + i, out.begin() + i + run);
    return out;
  };
  auto complain = [](const char* what) {
    std::printf("%s: %s\n", what, cudaGetErrorString(cudaGetLastError()));
    return 1;
  };

  upload();
  // A size above the default needs the attribute.
  bitonic<<<1, 512, 1 << 16>>>(dev, 1 << 14);
  if (cudaGetLastError() != cudaErrorInvalidValue)
    return complain("64 KiB were granted without being asked for");
  if (cudaFuncSetAttribute(bitonic, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           1 << 16) != cudaSuccess)
    return complain("64 KiB");
  bitonic<<<2, 512, 1 << 16>>>(dev, 1 << 14);
  if (read(dev) != sorted_by(1 << 14))
    return complain("bitonic");

  for (auto& x : keys)
    x &= 0x7fffffff; // compared as int
  upload();
  in_a_warp<<<n / 128, 128>>>(reinterpret_cast<int*>(dev));
  if (read(dev) != sorted_by(32))
    return complain("in a warp");

  upload();
  int blocks = n / tile;
  for (int shift = 0; shift < 32; shift += 4) {
    count<<<blocks, 128>>>(dev, n, shift, counts);
    scan<<<1, 1024>>>(counts, blocks * digits);
    scatter<<<blocks, 32>>>(dev, spare, n, shift, counts);
    std::swap(dev, spare);
  }
  if (read(dev) != sorted_by(n))
    return complain("radix");

  constexpr int some = 10007;
  std::vector<record> records(some), got(some);
  for (int i = 0; i < some; ++i)
    records[i] = {double(i * 7919 % 501) / 8, i};
  record *a, *b;
  cudaMalloc(&a, some * sizeof *a);
  cudaMalloc(&b, some * sizeof *b);
  cudaMemcpy(a, records.data(), some * sizeof *a, cudaMemcpyHostToDevice);
  // Threads merge pieces of 8, so the runs begin with 8 sorted records.
  std::vector<record> eights(records);
  for (int i = 0; i < some; i += 8)
    std::stable_sort(eights.begin() + i, eights.begin() + std::min(i + 8, some),
                     [](auto& x, auto& y) { return x.key < y.key; });
  cudaMemcpy(a, eights.data(), some * sizeof *a, cudaMemcpyHostToDevice);
  for (int run = 8; run < some; run *= 2) {
    merge<<<(some / 8 + 128) / 128, 128>>>(a, b, some, run);
    std::swap(a, b);
  }
  cudaMemcpy(got.data(), a, some * sizeof *a, cudaMemcpyDeviceToHost);
  std::stable_sort(records.begin(), records.end(),
                   [](auto& x, auto& y) { return x.key < y.key; });
  for (int i = 0; i < some; ++i)
    if (got[i].key != records[i].key || got[i].value != records[i].value)
      return complain("merge sort");
  std::printf("ok\n");
}
