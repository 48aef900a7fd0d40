// malloc, free, new and delete in kernels: structures that outlive the kernel
// which made them, objects with virtual functions, alignment, exhaustion.
#include <cstdio>

struct node {
  int key;
  node *left, *right;
};

__device__ node* root;

__global__ void grow(const int* keys, int n) {
  for (int i = 0; i < n; ++i) {
    node** at = &root;
    while (*at != nullptr)
      at = keys[i] < (*at)->key ? &(*at)->left : &(*at)->right;
    *at = new node{keys[i], nullptr, nullptr};
  }
}

__device__ int walk(node* from, int* out, int count) {
  if (from == nullptr)
    return count;
  count = walk(from->left, out, count);
  out[count++] = from->key;
  count = walk(from->right, out, count);
  delete from;
  return count;
}

__global__ void harvest(int* out, int* count) {
  *count = walk(root, out, 0);
  root = nullptr;
}

struct shape {
  __device__ virtual ~shape() {}
  __device__ virtual float area() const = 0;
};
struct circle : shape {
  float r;
  __device__ explicit circle(float x) : r(x) {}
  __device__ float area() const override { return 3 * r * r; }
};
struct box : shape {
  float a, b;
  float* note;
  __device__ box(float x, float y) : a(x), b(y), note(new float[8]) {
    note[7] = x * y;
  }
  __device__ ~box() override { delete[] note; }
  __device__ float area() const override { return note[7]; }
};

__global__ void areas(float* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  shape* s = i % 3 == 0 ? static_cast<shape*>(new circle(float(i)))
                        : new box(float(i), 2);
  out[i] = s->area();
  delete s;
}

__global__ void strange_sizes(int* wrong) {
  char* kept[6];
  for (int k = 0; k < 6; ++k) {
    kept[k] = static_cast<char*>(malloc(1 + threadIdx.x * 7 + k));
    if (kept[k] == nullptr || reinterpret_cast<size_t>(kept[k]) % 16 != 0)
      atomicAdd(wrong, 1);
    else
      memset(kept[k], threadIdx.x + k, 1 + threadIdx.x * 7 + k);
  }
  __syncthreads();
  for (int k = 5; k >= 0; --k) {
    for (int b = 0; kept[k] != nullptr && b < 1 + threadIdx.x * 7 + k; ++b)
      if (kept[k][b] != char(threadIdx.x + k))
        atomicAdd(wrong, 1);
    free(kept[k]);
  }
  free(nullptr);
}

// Frees everything that it got, so that the next kernel gets as much again.
__global__ void exhaust(int* got) {
  void* first = nullptr;
  int count = 0;
  while (void** next = static_cast<void**>(malloc(64 << 10))) {
    *next = first;
    first = next;
    ++count;
  }
  *got = count;
  while (first != nullptr) {
    void* next = *static_cast<void**>(first);
    free(first);
    first = next;
  }
}

int main() {
  constexpr int n = 300;
  int keys[n], sorted[n] = {}, count = 0, wrong = -1, got[2] = {};
  for (int i = 0; i < n; ++i)
    keys[i] = i * 89 % n;
  int *dev_keys, *dev_out;
  float* dev_areas;
  if (cudaMalloc(&dev_keys, sizeof keys) ||
      cudaMalloc(&dev_out, (n + 4) * sizeof(int)) ||
      cudaMalloc(&dev_areas, 256 * sizeof(float)))
    return 1;
  size_t heap = 0;
  cudaDeviceGetLimit(&heap, cudaLimitMallocHeapSize);
  cudaMemset(dev_out, 0, (n + 4) * sizeof(int));
  cudaMemcpy(dev_keys, keys, sizeof keys, cudaMemcpyHostToDevice);
  grow<<<1, 1>>>(dev_keys, n);
  harvest<<<1, 1>>>(dev_out, dev_out + n);
  areas<<<4, 64>>>(dev_areas);
  strange_sizes<<<2, 96>>>(dev_out + n + 1);
  exhaust<<<1, 1>>>(dev_out + n + 2);
  exhaust<<<1, 1>>>(dev_out + n + 3);
  float squares[256];
  cudaMemcpy(sorted, dev_out, sizeof sorted, cudaMemcpyDeviceToHost);
  cudaMemcpy(&count, dev_out + n, sizeof count, cudaMemcpyDeviceToHost);
  cudaMemcpy(&wrong, dev_out + n + 1, sizeof wrong, cudaMemcpyDeviceToHost);
  cudaMemcpy(got, dev_out + n + 2, sizeof got, cudaMemcpyDeviceToHost);
  cudaError_t e =
      cudaMemcpy(squares, dev_areas, sizeof squares, cudaMemcpyDeviceToHost);
  if (e != cudaSuccess) {
    std::printf("%s\n", cudaGetErrorString(e));
    return 1;
  }
  for (int i = 0; i < n; ++i)
    if (sorted[i] != i) {
      std::printf("the tree has %d at %d\n", sorted[i], i);
      return 1;
    }
  for (int i = 0; i < 256; ++i)
    if (squares[i] != (i % 3 == 0 ? 3.f * i * i : 2.f * i)) {
      std::printf("shape %d has an area of %g\n", i, squares[i]);
      return 1;
    }
  if (count != n || wrong != 0 || heap < (8 << 20) || got[0] < 64 ||
      got[0] > int(heap >> 16) || got[0] != got[1]) {
    std::printf("%d keys, %d wrong, %d and %d pieces of %zu bytes\n", count,
                wrong, got[0], got[1], heap);
    return 1;
  }
  std::printf("ok\n");
}
