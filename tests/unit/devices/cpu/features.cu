// Kernels that use features of newer architectures, compiled for 9.0.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/std/utility>
#include <mma.h>

#include <cstdint>

namespace cg = cooperative_groups;
using namespace nvcuda;

template <int M, int N, int K, class T, class LA, class LB, class C>
__device__ void multiply(const T* a, int lda, const T* b, int ldb, C* c) {
  wmma::fragment<wmma::matrix_a, M, N, K, T, LA> fa;
  wmma::fragment<wmma::matrix_b, M, N, K, T, LB> fb;
  wmma::fragment<wmma::accumulator, M, N, K, C> fc;
  wmma::load_matrix_sync(fa, a, lda);
  wmma::load_matrix_sync(fb, b, ldb);
  wmma::load_matrix_sync(fc, c, N, wmma::mem_row_major);
  for (int i = 0; i < fc.num_elements; ++i)
    fc.x[i] = fc.x[i] * C(2);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, N, wmma::mem_row_major);
}

extern "C" {

// A and B are stored by rows, as on the host.
__global__ void wmma_half(const half* a, const half* b, float* c) {
  multiply<32, 8, 16, half, wmma::row_major, wmma::row_major>(a, 16, b, 8, c);
}

__global__ void wmma_half_wide(const half* a, const half* b, half* c) {
  multiply<8, 32, 16, half, wmma::col_major, wmma::col_major>(a, 8, b, 16, c);
}

__global__ void wmma_bytes(const signed char* a, const signed char* b, int* c) {
  multiply<16, 16, 16, signed char, wmma::row_major, wmma::col_major>(a, 16, b,
                                                                      16, c);
}

__global__ void wmma_double(const double* a, const double* b, double* c) {
  multiply<8, 8, 4, double, wmma::row_major, wmma::col_major>(a, 4, b, 4, c);
}

// Uses mma.sync with the layouts of the ISA, spelled out.
__global__ void tensor_half(const half* a, const half* b, float* c) {
  int lane = threadIdx.x, row = lane / 4, quad = lane % 4;
  auto pair = [](const half* p, int step) {
    return uint32_t(__half_as_ushort(p[0])) |
           uint32_t(__half_as_ushort(p[step])) << 16;
  };
  uint32_t ra[4], rb[2];
  float rc[4];
  for (int i = 0; i < 4; ++i)
    ra[i] = pair(a + (row + (i % 2) * 8) * 16 + quad * 2 + (i / 2) * 8, 1);
  for (int i = 0; i < 2; ++i)
    rb[i] = pair(b + (quad * 2 + i * 8) * 8 + row, 8);
  for (int i = 0; i < 4; ++i)
    rc[i] = c[(row + (i / 2) * 8) * 8 + quad * 2 + i % 2];
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
      "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(rc[0]), "+f"(rc[1]), "+f"(rc[2]), "+f"(rc[3])
      : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
  for (int i = 0; i < 4; ++i)
    c[(row + (i / 2) * 8) * 8 + quad * 2 + i % 2] = rc[i];
}

__global__ void tensor_bytes(const signed char* a, const signed char* b,
                             int* c) {
  int lane = threadIdx.x, row = lane / 4, quad = lane % 4;
  uint32_t ra[4], rb[2];
  int rc[4];
  for (int i = 0; i < 4; ++i)
    ra[i] = *(const uint32_t*)(a + (row + (i % 2) * 8) * 32 + quad * 4 +
                               (i / 2) * 16);
  // B is stored by columns.
  for (int i = 0; i < 2; ++i)
    rb[i] = *(const uint32_t*)(b + row * 32 + quad * 4 + i * 16);
  for (int i = 0; i < 4; ++i)
    rc[i] = c[(row + (i / 2) * 8) * 8 + quad * 2 + i % 2];
  asm("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(rc[0]), "+r"(rc[1]), "+r"(rc[2]), "+r"(rc[3])
      : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
  for (int i = 0; i < 4; ++i)
    c[(row + (i / 2) * 8) * 8 + quad * 2 + i % 2] = rc[i];
}

__global__ void tensor_double(const double* a, const double* b, double* c) {
  int lane = threadIdx.x, row = lane / 4, quad = lane % 4;
  double x = a[row * 4 + quad], y = b[quad * 8 + row];
  double d0 = c[row * 8 + quad * 2], d1 = c[row * 8 + quad * 2 + 1];
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, "
      "{%0,%1};"
      : "+d"(d0), "+d"(d1)
      : "d"(x), "d"(y));
  c[row * 8 + quad * 2] = d0;
  c[row * 8 + quad * 2 + 1] = d1;
}

// Each thread reads what another block wrote in the round before.
__global__ void in_grid(int* data, int rounds) {
  auto grid = cg::this_grid();
  int n = grid.size();
  for (int round = 0; round < rounds; ++round) {
    int mine = data[(grid.thread_rank() + blockDim.x) % n];
    grid.sync();
    data[grid.thread_rank()] = mine + 1;
    grid.sync();
  }
}

// The workspace through which cg::grid_group::sync works.
__global__ void grid_workspace(unsigned* out) {
  asm("mov.u32 %0, %%envreg1;" : "=r"(out[0]));
  asm("mov.u32 %0, %%envreg2;" : "=r"(out[1]));
}

// A list that a kernel builds with malloc and the next kernel frees.
struct item {
  item* next;
  int value;
};

__global__ void build_list(item** heads, int length) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  item* head = nullptr;
  for (int i = 0; i < length; ++i) {
    auto* x = (item*)malloc(sizeof(item));
    if (x == nullptr)
      break;
    x->next = head;
    x->value = t + i;
    head = x;
  }
  heads[t] = head;
}

__global__ void sum_list(item** heads, int* sums) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  int sum = 0;
  for (item* x = heads[t]; x != nullptr;) {
    sum += x->value;
    auto* next = x->next;
    free(x);
    x = next;
  }
  sums[t] = sum;
}

// Allocates more than the heap holds.
__global__ void too_much(int* got) {
  void* first = malloc(6 << 20);
  void* second = malloc(6 << 20);
  free(first);
  void* third = malloc(6 << 20);
  got[0] = first != nullptr;
  got[1] = second != nullptr;
  got[2] = third != nullptr;
  free(third);
}

__device__ __noinline__ int fall(int depth, int salt) {
  int local[64];
  for (int i = 0; i < 64; ++i)
    local[i] = depth * i + salt;
  if (depth == 0)
    return local[salt % 64];
  int below = fall(depth - 1, salt + 1);
  return below + local[(below & 0xffff) % 64];
}

// Calls itself with 256 bytes of local memory in each call.
__global__ void deep(int* out, int depth) {
  out[threadIdx.x] = fall(depth, threadIdx.x);
}

__global__ void free_nonsense(int* p) {
  free(p);
}

// Copies a tile asynchronously, with a barrier that counts arrivals.
__global__ void copy_ahead(const int* in, int* out) {
  __shared__ int tile[256];
  __shared__ cuda::barrier<cuda::thread_scope_block> ready;
  auto block = cg::this_thread_block();
  if (block.thread_rank() == 0)
    init(&ready, block.size());
  block.sync();
  cg::memcpy_async(block, tile, in + blockIdx.x * 256, sizeof tile);
  cg::wait(block);
  ready.arrive_and_wait();
  int sum = tile[255 - threadIdx.x];
  for (int i = 0; i < 3; ++i)
    ready.wait(ready.arrive());
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}

// Copies a tile by hardware, which signals a barrier.
__global__ void copy_in_bulk(const int* in, int* out) {
  __shared__ alignas(16) int tile[256];
  __shared__ cuda::barrier<cuda::thread_scope_block> ready;
  if (threadIdx.x == 0)
    init(&ready, blockDim.x);
  __syncthreads();
  cuda::barrier<cuda::thread_scope_block>::arrival_token token;
  if (threadIdx.x == 0) {
    cuda::device::memcpy_async_tx(tile, in + blockIdx.x * 256,
                                  cuda::aligned_size_t<16>(sizeof tile), ready);
    token = cuda::device::barrier_arrive_tx(ready, 1, sizeof tile);
  } else {
    token = ready.arrive();
  }
  ready.wait(cuda::std::move(token));
  out[blockIdx.x * 256 + threadIdx.x] = tile[threadIdx.x] * 2;
}

__device__ __noinline__ int ackermann(int m, int n) {
  if (m == 0)
    return n + 1;
  return ackermann(m - 1, n == 0 ? 1 : ackermann(m, n - 1));
}

__global__ void recursion(int* out) {
  out[threadIdx.x] = ackermann(2, threadIdx.x % 4);
}

__global__ void on_the_stack(const int* sizes, int* out) {
  int n = sizes[threadIdx.x];
  auto* x = (int*)alloca(n * sizeof(int));
  for (int i = 0; i < n; ++i)
    x[i] = i * (threadIdx.x + 1);
  int sum = 0;
  for (int i = 0; i < n; ++i)
    sum += x[i];
  out[threadIdx.x] = sum;
}
}
