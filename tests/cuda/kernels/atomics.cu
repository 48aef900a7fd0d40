// Atomic operations of every kind, on global and on shared memory.
#include <cstdio>
#include <cstring>

typedef unsigned long long u64;

struct results {
  int add, sub, smallest, largest, exchanged;
  unsigned wrapped, countdown, bits_or, bits_and, bits_xor, locked;
  u64 add64, largest64, cas64;
  float sum;
  int old_values; // how often each old value was seen, which must be once
};

__global__ void all(results* r, unsigned char* seen) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int old = atomicAdd(&r->add, 1);
  seen[old] = 1; // Every thread gets a different old value.
  atomicSub(&r->sub, 2);
  atomicMin(&r->smallest, -i);
  atomicMax(&r->largest, i * 3);
  atomicExch(&r->exchanged, 4711);
  atomicInc(&r->wrapped, 99); // counts modulo 100
  atomicDec(&r->countdown, 99);
  atomicOr(&r->bits_or, 1u << (i % 32));
  atomicAnd(&r->bits_and, ~(1u << (i % 16)));
  atomicXor(&r->bits_xor, i);
  atomicAdd(&r->add64, 1ull << 33);
  atomicMax(&r->largest64, (u64)i << 40);
  atomicAdd(&r->sum, 0.5f);
  // A sum by compare-and-swap.
  u64 expected = r->cas64, seen_value;
  while ((seen_value = atomicCAS(&r->cas64, expected, expected + i)) !=
         expected)
    expected = seen_value;
}

__global__ void in_shared(int* out) {
  __shared__ int count;
  __shared__ u64 sum;
  if (threadIdx.x == 0) {
    count = 0;
    sum = 0;
  }
  __syncthreads();
  atomicAdd(&count, (int)threadIdx.x);
  atomicAdd(&sum, 1ull << 32);
  __syncthreads();
  if (threadIdx.x == 0) {
    out[0] = count;
    out[1] = (int)(sum >> 32);
  }
}

int main() {
  const int n = 64 * 100;
  results want, got, *dev;
  unsigned char *seen, host_seen[n];
  memset(&want, 0, sizeof want);
  if (cudaMalloc(&dev, sizeof *dev) || cudaMalloc(&seen, n))
    return 1;
  want.bits_and = ~0u;
  cudaMemcpy(dev, &want, sizeof want, cudaMemcpyHostToDevice);
  cudaMemset(seen, 0, n);
  all<<<n / 64, 64>>>(dev, seen);
  if (cudaMemcpy(&got, dev, sizeof got, cudaMemcpyDeviceToHost))
    return 1;
  cudaMemcpy(host_seen, seen, n, cudaMemcpyDeviceToHost);

  want.add = n;
  want.sub = -2 * n;
  want.smallest = -(n - 1);
  want.largest = (n - 1) * 3;
  want.exchanged = 4711;
  want.bits_or = ~0u;
  want.bits_and = 0xffff0000u;
  want.wrapped = want.countdown = 0; // n is a multiple of 100
  for (int i = 0; i < n; ++i) {
    want.bits_xor ^= i;
    want.cas64 += i;
    want.old_values += host_seen[i];
  }
  got.old_values = want.old_values;
  want.add64 = (u64)n << 33;
  want.largest64 = (u64)(n - 1) << 40;
  want.sum = 0.5f * n;
  if (want.old_values != n || memcmp(&want, &got, sizeof got)) {
    const int *w = (const int*)&want, *g = (const int*)&got;
    for (size_t i = 0; i < sizeof got / 4; ++i)
      if (w[i] != g[i])
        printf("word %zu: %x, not %x\n", i, g[i], w[i]);
    printf("%d of %d old values seen\n", want.old_values, n);
    return 1;
  }
  int *out, shared[2];
  cudaMalloc(&out, sizeof shared);
  in_shared<<<1, 256>>>(out);
  if (cudaMemcpy(shared, out, sizeof shared, cudaMemcpyDeviceToHost) ||
      shared[0] != 255 * 128 || shared[1] != 256) {
    printf("in shared memory: %d %d\n", shared[0], shared[1]);
    return 1;
  }
  printf("ok\n");
}
