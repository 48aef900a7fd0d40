// Tables that are filled in waves: edit distance and local alignment along the
// diagonals, a knapsack, shortest paths of all pairs in tiles.
// nvcc: -arch=sm_80
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

// One block fills one diagonal after the other, and keeps three in shared
// memory.
__global__ void edit_distance(const char* a, int n, const char* b, int m,
                              int* out) {
  extern __shared__ int lines[];
  int *before = lines, *last = lines + n + 1, *now = lines + 2 * (n + 1);
  for (int d = 0; d <= n + m; ++d) {
    for (int i = max(0, d - m) + threadIdx.x; i <= min(n, d); i += blockDim.x) {
      int j = d - i;
      now[i] = i == 0   ? j
               : j == 0 ? i
                        : min(min(last[i - 1], last[i]) + 1,
                              before[i - 1] + (a[i - 1] != b[j - 1]));
    }
    __syncthreads();
    int* spare = before;
    before = last;
    last = now;
    now = spare;
  }
  if (threadIdx.x == 0)
    *out = last[n];
}

// Smith-Waterman with a tile of 32 x 32 per block and a launch for each
// diagonal of tiles. An atomic keeps the best score.
__global__ void align(const char* a, const char* b, int n, short* score,
                      int diagonal, int first, int* best) {
  __shared__ short tile[33][33];
  int row = first + blockIdx.x, column = diagonal - row;
  int i0 = row * 32, j0 = column * 32, t = threadIdx.x, width = n + 1;
  tile[t + 1][0] = score[(i0 + t + 1) * width + j0];
  tile[0][t + 1] = score[i0 * width + j0 + t + 1];
  if (t == 0)
    tile[0][0] = score[i0 * width + j0];
  __syncwarp();
  int most = 0;
  for (int d = 0; d < 63; ++d) {
    int x = d - t;
    if (x >= 0 && x < 32) {
      int match = a[i0 + t] == b[j0 + x] ? 3 : -2;
      int s = max(max(0, tile[t][x] + match),
                  max(tile[t][x + 1], tile[t + 1][x]) - 2);
      tile[t + 1][x + 1] = short(s);
      most = max(most, s);
    }
    __syncwarp();
  }
  for (int x = 0; x < 32; ++x)
    score[(i0 + t + 1) * width + j0 + x + 1] = tile[t + 1][x + 1];
  most = __reduce_max_sync(~0u, most);
  if (t == 0)
    atomicMax(best, most);
}

__global__ void knapsack(const int* last, int* now, int capacity, int weight,
                         int value) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c <= capacity)
    now[c] = max(last[c], c >= weight ? last[c - weight] + value : 0);
}

// Floyd and Warshall in tiles of 16: the tile on the diagonal, its row and
// column, then all others.
template <int Phase>
__global__ void shortest(int* d, int n, int k) {
  constexpr int tile = 16;
  int x = threadIdx.x, y = threadIdx.y;
  int bi = Phase == 0   ? k
           : Phase == 1 ? (blockIdx.y ? blockIdx.x : k)
                        : blockIdx.y;
  int bj = Phase == 0   ? k
           : Phase == 1 ? (blockIdx.y ? k : blockIdx.x)
                        : blockIdx.x;
  if ((Phase == 1 && blockIdx.x == k) || (Phase == 2 && (bi == k || bj == k)))
    return;
  __shared__ int mine[tile][tile], left[tile][tile], above[tile][tile];
  int at = (bi * tile + y) * n + bj * tile + x;
  mine[y][x] = d[at];
  left[y][x] = d[(bi * tile + y) * n + k * tile + x];
  above[y][x] = d[(k * tile + y) * n + bj * tile + x];
  __syncthreads();
  for (int m = 0; m < tile; ++m) {
    int through = Phase == 0   ? mine[y][m] + mine[m][x]
                  : Phase == 1 ? (bi == k ? left[y][m] + mine[m][x]
                                          : mine[y][m] + above[m][x])
                               : left[y][m] + above[m][x];
    __syncthreads();
    mine[y][x] = min(mine[y][x], through);
    __syncthreads();
  }
  d[at] = mine[y][x];
}

static std::string letters(unsigned x, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) {
    x = x * 1103515245 + 12345;
    out += "acgt"[x >> 20 & 3];
  }
  return out;
}

static int* zeros(std::size_t bytes) {
  void* out = nullptr;
  cudaMalloc(&out, bytes);
  cudaMemset(out, 0, bytes);
  return static_cast<int*>(out);
}

static int read(const int* from) {
  int out = -1;
  cudaMemcpy(&out, from, sizeof out, cudaMemcpyDeviceToHost);
  return out;
}

int main() {
  // Edit distance.
  std::string a = letters(1, 700), b = letters(2, 650);
  char *dev_a = (char*)zeros(1024), *dev_b = (char*)zeros(1024);
  int* result = zeros(4);
  cudaMemcpy(dev_a, a.data(), a.size(), cudaMemcpyHostToDevice);
  cudaMemcpy(dev_b, b.data(), b.size(), cudaMemcpyHostToDevice);
  int n = int(a.size()), m = int(b.size());
  edit_distance<<<1, 256, 3 * (n + 1) * 4>>>(dev_a, n, dev_b, m, result);
  std::vector<int> line(m + 1);
  for (int j = 0; j <= m; ++j)
    line[j] = j;
  for (int i = 1; i <= n; ++i) {
    int corner = line[0];
    line[0] = i;
    for (int j = 1; j <= m; ++j) {
      int old = line[j];
      line[j] = std::min(std::min(line[j], line[j - 1]) + 1,
                         corner + (a[i - 1] != b[j - 1]));
      corner = old;
    }
  }
  if (read(result) != line[m]) {
    std::printf("edit distance: %d, not %d: %s\n", read(result), line[m],
                cudaGetErrorString(cudaGetLastError()));
    return 1;
  }

  // Local alignment.
  constexpr int size = 512, tiles = size / 32;
  a = letters(3, size);
  b = a.substr(100, 200) + letters(4, size - 200);
  cudaMemcpy(dev_a, a.data(), size, cudaMemcpyHostToDevice);
  cudaMemcpy(dev_b, b.data(), size, cudaMemcpyHostToDevice);
  auto score = (short*)zeros((size + 1) * (size + 1) * 2);
  int* best = zeros(4);
  for (int d = 0; d < 2 * tiles - 1; ++d) {
    int first = std::max(0, d - tiles + 1), last = std::min(d, tiles - 1);
    align<<<last - first + 1, 32>>>(dev_a, dev_b, size, score, d, first, best);
  }
  std::vector<std::vector<int>> s(size + 1, std::vector<int>(size + 1));
  int most = 0;
  for (int i = 1; i <= size; ++i)
    for (int j = 1; j <= size; ++j) {
      s[i][j] = std::max(
          std::max(0, s[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 3 : -2)),
          std::max(s[i - 1][j], s[i][j - 1]) - 2);
      most = std::max(most, s[i][j]);
    }
  if (read(best) != most || most < 600) {
    std::printf("alignment: %d, not %d\n", read(best), most);
    return 1;
  }

  // Knapsack.
  constexpr int capacity = 5000, objects = 60;
  int *last = zeros((capacity + 1) * 4), *now = zeros((capacity + 1) * 4);
  std::vector<int> value_of(capacity + 1);
  for (int o = 0; o < objects; ++o) {
    int weight = 37 + o * 71 % 400, value = 11 + o * 131 % 500;
    knapsack<<<(capacity + 256) / 256, 256>>>(last, now, capacity, weight,
                                              value);
    std::swap(last, now);
    for (int c = capacity; c >= weight; --c)
      value_of[c] = std::max(value_of[c], value_of[c - weight] + value);
  }
  if (read(last + capacity) != value_of[capacity]) {
    std::printf("knapsack: %d, not %d\n", read(last + capacity),
                value_of[capacity]);
    return 1;
  }

  // All pairs.
  constexpr int vertices = 128;
  std::vector<int> d(vertices * vertices);
  for (int i = 0; i < vertices * vertices; ++i)
    d[i] = i % (vertices + 1) == 0 ? 0 : 1 + int(i * 2654435761u >> 20);
  int* dev_d = zeros(d.size() * 4);
  cudaMemcpy(dev_d, d.data(), d.size() * 4, cudaMemcpyHostToDevice);
  dim3 block(16, 16), row(vertices / 16, 2), all(vertices / 16, vertices / 16);
  for (int k = 0; k < vertices / 16; ++k) {
    shortest<0><<<1, block>>>(dev_d, vertices, k);
    shortest<1><<<row, block>>>(dev_d, vertices, k);
    shortest<2><<<all, block>>>(dev_d, vertices, k);
  }
  for (int k = 0; k < vertices; ++k)
    for (int i = 0; i < vertices; ++i)
      for (int j = 0; j < vertices; ++j)
        d[i * vertices + j] = std::min(
            d[i * vertices + j], d[i * vertices + k] + d[k * vertices + j]);
  std::vector<int> got(d.size());
  cudaMemcpy(got.data(), dev_d, d.size() * 4, cudaMemcpyDeviceToHost);
  if (got != d) {
    std::printf("shortest paths\n");
    return 1;
  }
  std::printf("ok\n");
}
