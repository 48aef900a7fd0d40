// Locks for which the lanes of a warp compete, in several common forms. They
// end only on a GPU whose lanes progress independently.
#include <cstdio>

__device__ int mutex, tickets, serving;
__device__ long long guarded[4];

// Tries the lock in a loop, and works inside the branch.
__global__ void try_in_a_loop(int rounds) {
  for (int r = 0; r < rounds; ++r) {
    bool done = false;
    while (!done) {
      if (atomicCAS(&mutex, 0, 1) == 0) {
        __threadfence();
        guarded[0] = guarded[0] + 1;
        __threadfence();
        atomicExch(&mutex, 0);
        done = true;
      }
    }
  }
}

// Locks and unlocks by functions, so the loop ends before the work begins.
__device__ void lock(int* m) {
  while (atomicCAS(m, 0, 1) != 0) {
  }
  __threadfence();
}
__device__ void unlock(int* m) {
  __threadfence();
  atomicExch(m, 0);
}
__global__ void as_functions(int rounds) {
  for (int r = 0; r < rounds; ++r) {
    lock(&mutex);
    ++*(volatile long long*)&guarded[1];
    unlock(&mutex);
  }
}

// Takes tickets, so that lanes and blocks get the lock in order, with a pause.
__global__ void ticket_lock() {
  int mine = atomicAdd(&tickets, 1);
  unsigned pause = 8;
  while (*(volatile int*)&serving != mine) {
    __nanosleep(pause);
    pause = pause < 256 ? pause * 2 : pause;
  }
  __threadfence();
  guarded[2] = guarded[2] * 3 % 1000003 + mine;
  __threadfence();
  atomicAdd(&serving, 1);
}

// Uses many locks, in a hash table whose chains the lanes extend.
struct node {
  int key, next;
};
__global__ void insert(node* nodes, int* heads, int* locks, int buckets,
                       int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  int b = nodes[i].key % buckets;
  for (bool done = false; !done;) {
    if (atomicExch(&locks[b], 1) == 0) {
      nodes[i].next = *(volatile int*)&heads[b];
      *(volatile int*)&heads[b] = i;
      __threadfence();
      atomicExch(&locks[b], 0);
      done = true;
    }
  }
}

// Makes each lane wait for the previous one, while the last lane runs first.
__global__ void chain(int* out) {
  __shared__ volatile int turn;
  turn = 0;
  __syncthreads();
  int mine = blockDim.x - 1 - threadIdx.x;
  while (turn != mine) {
  }
  out[mine] = threadIdx.x;
  __threadfence_block();
  turn = mine + 1;
}

int main() {
  try_in_a_loop<<<4, 64>>>(5);
  as_functions<<<4, 64>>>(5);
  ticket_lock<<<4, 48>>>();
  constexpr int n = 4096, buckets = 37;
  static node nodes[n];
  for (int i = 0; i < n; ++i)
    nodes[i] = {i * 7 % 5003, -2};
  static int heads[buckets], order[96];
  node* dev_nodes;
  int *dev_heads, *dev_locks, *dev_order;
  if (cudaMalloc(&dev_nodes, sizeof nodes) ||
      cudaMalloc(&dev_heads, sizeof heads) ||
      cudaMalloc(&dev_locks, sizeof heads) ||
      cudaMalloc(&dev_order, sizeof order))
    return 1;
  cudaMemcpy(dev_nodes, nodes, sizeof nodes, cudaMemcpyHostToDevice);
  cudaMemset(dev_heads, 0xff, sizeof heads);
  cudaMemset(dev_locks, 0, sizeof heads);
  insert<<<n / 128, 128>>>(dev_nodes, dev_heads, dev_locks, buckets, n);
  chain<<<1, 96>>>(dev_order);
  long long got[4];
  cudaMemcpy(nodes, dev_nodes, sizeof nodes, cudaMemcpyDeviceToHost);
  cudaMemcpy(heads, dev_heads, sizeof heads, cudaMemcpyDeviceToHost);
  cudaMemcpy(order, dev_order, sizeof order, cudaMemcpyDeviceToHost);
  cudaError_t e = cudaMemcpyFromSymbol(got, guarded, sizeof got);
  if (e != cudaSuccess) {
    std::printf("%s\n", cudaGetErrorString(e));
    return 1;
  }
  long long tickets_sum = 0;
  for (int i = 0; i < 4 * 48; ++i)
    tickets_sum = tickets_sum * 3 % 1000003 + i;
  int found = 0;
  for (int b = 0; b < buckets; ++b)
    for (int at = heads[b]; at >= 0 && found <= n; at = nodes[at].next)
      found += nodes[at].key % buckets == b;
  bool in_order = true;
  for (int i = 0; i < 96; ++i)
    in_order = in_order && order[i] == 95 - i;
  if (got[0] != 4 * 64 * 5 || got[1] != 4 * 64 * 5 || got[2] != tickets_sum ||
      found != n || !in_order) {
    std::printf("%lld %lld %lld (%lld) %d %d\n", got[0], got[1], got[2],
                tickets_sum, found, in_order);
    return 1;
  }
  std::printf("ok\n");
}
