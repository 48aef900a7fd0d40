// Sparse matrices and graphs: a product by rows and by warps, breadth-first
// search with frontiers, shortest paths, connected components.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <queue>
#include <vector>

struct graph {
  std::vector<int> begin, to;
  std::vector<float> weight;
  int size() const { return int(begin.size()) - 1; }
};

static graph make_graph(int n) {
  graph g;
  g.begin.push_back(0);
  unsigned x = 12345;
  for (int i = 0; i < n; ++i) {
    // A few vertices have very many edges.
    int degree = i % 997 == 0 ? 700 : i % 7;
    for (int k = 0; k < degree; ++k) {
      x = x * 1664525 + 1013904223;
      g.to.push_back(int((x >> 8) % unsigned(n)));
      g.weight.push_back(float(1 + x % 64) / 8);
    }
    g.begin.push_back(int(g.to.size()));
  }
  return g;
}

struct view {
  int n;
  const int* __restrict__ begin;
  const int* __restrict__ to;
  const float* __restrict__ weight;
};

__global__ void product_by_rows(view m, const float* x, float* y) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= m.n)
    return;
  float sum = 0;
  for (int e = m.begin[row]; e < m.begin[row + 1]; ++e)
    sum += __ldg(m.weight + e) * __ldg(x + m.to[e]);
  y[row] = sum;
}

__global__ void product_by_warps(view m, const float* x, float* y) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
  if (row >= m.n)
    return;
  float sum = 0;
  for (int e = m.begin[row] + threadIdx.x % warpSize; e < m.begin[row + 1];
       e += warpSize)
    sum += m.weight[e] * x[m.to[e]];
  for (int offset = warpSize / 2; offset > 0; offset /= 2)
    sum += __shfl_down_sync(0xffffffff, sum, offset);
  if (threadIdx.x % warpSize == 0)
    y[row] = sum;
}

__global__ void search(view g, const int* frontier, int size, int level,
                       int* levels, int* next, int* next_size) {
  __shared__ int queue[512], count, base;
  if (threadIdx.x == 0)
    count = 0;
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) {
    int v = frontier[i];
    for (int e = g.begin[v]; e < g.begin[v + 1]; ++e) {
      int w = g.to[e];
      if (levels[w] < 0 && atomicCAS(&levels[w], -1, level) == -1) {
        int at = atomicAdd(&count, 1);
        if (at < 512)
          queue[at] = w;
        else
          next[atomicAdd(next_size, 1)] = w;
      }
    }
  }
  __syncthreads();
  int kept = min(count, 512);
  if (threadIdx.x == 0)
    base = atomicAdd(next_size, kept);
  __syncthreads();
  for (int k = threadIdx.x; k < kept; k += blockDim.x)
    next[base + k] = queue[k];
}

// Compares positive floats by their bits, which have the same order.
__global__ void relax(view g, float* distance, int* changed) {
  int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v >= g.n || isinf(distance[v]))
    return;
  float mine = distance[v];
  for (int e = g.begin[v]; e < g.begin[v + 1]; ++e) {
    float through = mine + g.weight[e];
    int old = atomicMin(reinterpret_cast<int*>(distance + g.to[e]),
                        __float_as_int(through));
    if (__int_as_float(old) > through)
      *changed = 1;
  }
}

__global__ void link(view g, int* label, int* changed) {
  int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v >= g.n)
    return;
  for (int e = g.begin[v]; e < g.begin[v + 1]; ++e) {
    int a = label[v], b = label[g.to[e]];
    if (a == b)
      continue;
    *changed = 1;
    atomicMin(&label[max(a, b)], min(a, b));
  }
}

__global__ void shorten(int* label, int n) {
  int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v < n)
    while (label[v] != label[label[v]])
      label[v] = label[label[v]];
}

template <class T>
static T* on_device(const std::vector<T>& from) {
  T* out = nullptr;
  cudaMalloc(&out, from.size() * sizeof(T));
  cudaMemcpy(out, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice);
  return out;
}

template <class T>
static std::vector<T> read(const T* from, std::size_t n) {
  std::vector<T> out(n);
  cudaMemcpy(out.data(), from, n * sizeof(T), cudaMemcpyDeviceToHost);
  return out;
}

static bool products(const graph& g, view m, int blocks) {
  std::vector<float> x(m.n), y(m.n);
  for (int i = 0; i < m.n; ++i)
    x[i] = float(i % 33) / 4;
  for (int r = 0; r < m.n; ++r)
    for (int e = g.begin[r]; e < g.begin[r + 1]; ++e)
      y[r] += g.weight[e] * x[g.to[e]]; // exact: small multiples of 1/32
  float *dev_x = on_device(x), *dev_y = on_device(x);
  product_by_rows<<<blocks, 256>>>(m, dev_x, dev_y);
  bool ok = read(dev_y, m.n) == y;
  cudaMemset(dev_y, 0, m.n * sizeof(float));
  product_by_warps<<<(m.n + 7) / 8, 256>>>(m, dev_x, dev_y);
  return ok && read(dev_y, m.n) == y;
}

static bool levels(const graph& g, view v) {
  std::vector<int> expected(v.n, -1);
  std::queue<int> waiting;
  waiting.push(0);
  expected[0] = 0;
  for (; !waiting.empty(); waiting.pop())
    for (int e = g.begin[waiting.front()]; e < g.begin[waiting.front() + 1];
         ++e)
      if (expected[g.to[e]] < 0) {
        expected[g.to[e]] = expected[waiting.front()] + 1;
        waiting.push(g.to[e]);
      }
  std::vector<int> start(v.n, -1);
  start[0] = 0;
  int *dev_levels = on_device(start), *now = on_device(std::vector<int>(v.n)),
      *next = on_device(start), *dev_size = on_device(std::vector<int>(1));
  int size = 1;
  for (int level = 1; size > 0; ++level) {
    cudaMemset(dev_size, 0, 4);
    search<<<(size + 255) / 256, 256>>>(v, now, size, level, dev_levels, next,
                                        dev_size);
    if (cudaMemcpy(&size, dev_size, 4, cudaMemcpyDeviceToHost) != cudaSuccess)
      return false;
    std::swap(now, next);
  }
  return read(dev_levels, v.n) == expected;
}

static bool distances(const graph& g, view v, int blocks) {
  std::vector<float> expected(v.n, INFINITY), start(v.n, INFINITY);
  expected[0] = start[0] = 0;
  using entry = std::pair<float, int>;
  std::priority_queue<entry, std::vector<entry>, std::greater<>> open;
  open.push({0.f, 0});
  while (!open.empty()) {
    auto [d, at] = open.top();
    open.pop();
    if (d > expected[at])
      continue;
    for (int e = g.begin[at]; e < g.begin[at + 1]; ++e)
      if (d + g.weight[e] < expected[g.to[e]]) {
        expected[g.to[e]] = d + g.weight[e];
        open.push({expected[g.to[e]], g.to[e]});
      }
  }
  float* dev = on_device(start);
  int* dev_changed = on_device(std::vector<int>(1));
  for (int changed = 1; changed != 0;) {
    cudaMemset(dev_changed, 0, 4);
    relax<<<blocks, 256>>>(v, dev, dev_changed);
    if (cudaMemcpy(&changed, dev_changed, 4, cudaMemcpyDeviceToHost))
      return false;
  }
  return read(dev, v.n) == expected;
}

static bool components(const graph& g, view v, int blocks) {
  std::vector<int> parent(v.n);
  for (int i = 0; i < v.n; ++i)
    parent[i] = i;
  auto root = [&](int i) {
    while (parent[i] != i)
      i = parent[i] = parent[parent[i]];
    return i;
  };
  int* dev = on_device(parent);
  for (int i = 0; i < v.n; ++i)
    for (int e = g.begin[i]; e < g.begin[i + 1]; ++e) {
      int a = root(i), b = root(g.to[e]);
      parent[std::max(a, b)] = std::min(a, b);
    }
  for (int i = 0; i < v.n; ++i)
    parent[i] = root(i);
  int* dev_changed = on_device(std::vector<int>(1));
  for (int changed = 1; changed != 0;) {
    cudaMemset(dev_changed, 0, 4);
    link<<<blocks, 256>>>(v, dev, dev_changed);
    shorten<<<blocks, 256>>>(dev, v.n);
    if (cudaMemcpy(&changed, dev_changed, 4, cudaMemcpyDeviceToHost))
      return false;
  }
  return read(dev, v.n) == parent;
}

int main() {
  graph g = make_graph(20000);
  view v = {g.size(), on_device(g.begin), on_device(g.to), on_device(g.weight)};
  int blocks = (v.n + 255) / 256;
  bool product_ok = products(g, v, blocks), levels_ok = levels(g, v),
       distances_ok = distances(g, v, blocks),
       components_ok = components(g, v, blocks);
  if (!product_ok || !levels_ok || !distances_ok || !components_ok) {
    std::printf("product %d, levels %d, distances %d, components %d: %s\n",
                product_ok, levels_ok, distances_ok, components_ok,
                cudaGetErrorString(cudaGetLastError()));
    return 1;
  }
  std::printf("ok\n");
}
