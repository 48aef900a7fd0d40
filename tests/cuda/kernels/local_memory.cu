// Local arrays that are indexed at run time, and loops that threads of a warp
// leave at different times.
#include <cstdio>

__global__ void sort_own(const unsigned* in, unsigned* out, int* lengths) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned own[24];
  int n = 4 + t % 21;
  for (int i = 0; i < n; ++i)
    own[i] = in[(t * 31 + i) % 4096];
  for (int i = 1; i < n; ++i) {
    unsigned x = own[i];
    int j = i - 1;
    while (j >= 0 && own[j] > x) {
      own[j + 1] = own[j];
      --j;
    }
    own[j + 1] = x;
  }
  out[t] = own[n / 2];

  // The Collatz sequence takes 1 to 350 rounds.
  unsigned long long c = t + 1;
  int length = 0;
  while (c != 1) {
    c = c % 2 ? 3 * c + 1 : c / 2;
    if (++length > 1000)
      break;
  }
  lengths[t] = length;
}

int main() {
  const int threads = 2048;
  static unsigned in[4096], got[threads];
  static int lengths[threads];
  for (int i = 0; i < 4096; ++i)
    in[i] = i * 2654435761u;
  unsigned *dev_in, *dev_out;
  int* dev_lengths;
  if (cudaMalloc(&dev_in, sizeof in) || cudaMalloc(&dev_out, sizeof got) ||
      cudaMalloc(&dev_lengths, sizeof lengths))
    return 1;
  cudaMemcpy(dev_in, in, sizeof in, cudaMemcpyHostToDevice);
  sort_own<<<threads / 128, 128>>>(dev_in, dev_out, dev_lengths);
  cudaMemcpy(got, dev_out, sizeof got, cudaMemcpyDeviceToHost);
  if (cudaMemcpy(lengths, dev_lengths, sizeof lengths, cudaMemcpyDeviceToHost))
    return 1;
  for (int t = 0; t < threads; ++t) {
    int n = 4 + t % 21, below = 0, equal = 0, length = 0;
    for (int i = 0; i < n; ++i) {
      below += in[(t * 31 + i) % 4096] < got[t];
      equal += in[(t * 31 + i) % 4096] == got[t];
    }
    for (unsigned long long c = t + 1; c != 1; ++length)
      c = c % 2 ? 3 * c + 1 : c / 2;
    if (!equal || below > n / 2 || below + equal <= n / 2 ||
        lengths[t] != length) {
      printf("thread %d: median %u, length %d of %d\n", t, got[t], lengths[t],
             length);
      return 1;
    }
  }
  printf("ok\n");
}
