// Integer instructions, compared with the host's results.
#include <cstdint>
#include <cstdio>

constexpr int kinds = 20;

__device__ uint64_t on_device(int kind, uint64_t x, uint64_t y) {
  uint32_t a = static_cast<uint32_t>(x), b = static_cast<uint32_t>(y);
  int32_t s = static_cast<int32_t>(a), t = static_cast<int32_t>(b);
  switch (kind) {
  case 0:
    return __popc(a);
  case 1:
    return __popcll(x);
  case 2:
    return __clz(s);
  case 3:
    return __clzll(static_cast<long long>(x));
  case 4:
    return __brev(a);
  case 5:
    return __ffs(s);
  case 6:
    return __umulhi(a, b);
  case 7:
    return __umul64hi(x, y);
  case 8:
    return a / (b | 1);
  case 9:
    return static_cast<uint64_t>(static_cast<int64_t>(x) /
                                 static_cast<int64_t>(y | 1));
  case 10:
    return x % (y | 1);
  case 11:
    return __byte_perm(a, b, 0x3715);
  case 12:
    return __funnelshift_l(a, b, a & 31);
  case 13:
    return static_cast<uint32_t>(s >> (b & 31));
  case 14:
    return static_cast<uint32_t>(min(s, t)) + 3ull * max(a, b);
  case 15:
    return __usad(a, b, 17);
  case 16:
    return static_cast<uint32_t>(__mulhi(s, t));
  case 17:
    return x >> (y & 63) ^ x << (y & 31);
  case 18:
    return static_cast<uint32_t>(s % (t | 1));
  default:
    return static_cast<uint8_t>(a) * static_cast<uint16_t>(b);
  }
}

static uint64_t on_host(int kind, uint64_t x, uint64_t y) {
  auto a = static_cast<uint32_t>(x), b = static_cast<uint32_t>(y);
  auto s = static_cast<int32_t>(a), t = static_cast<int32_t>(b);
  uint64_t r = 0;
  switch (kind) {
  case 0:
    return __builtin_popcount(a);
  case 1:
    return __builtin_popcountll(x);
  case 2:
    return a ? __builtin_clz(a) : 32;
  case 3:
    return x ? __builtin_clzll(x) : 64;
  case 4:
    for (int i = 0; i < 32; ++i)
      r |= uint64_t{a >> i & 1} << (31 - i);
    return r;
  case 5:
    return __builtin_ffs(s);
  case 6:
    return uint64_t{a} * b >> 32;
  case 7:
    return static_cast<uint64_t>(static_cast<unsigned __int128>(x) * y >> 64);
  case 8:
    return a / (b | 1);
  case 9:
    return static_cast<uint64_t>(static_cast<int64_t>(x) /
                                 static_cast<int64_t>(y | 1));
  case 10:
    return x % (y | 1);
  case 11: {
    uint64_t bytes = uint64_t{b} << 32 | a;
    for (int i = 0; i < 4; ++i)
      r |= (bytes >> 8 * (0x3715 >> 4 * i & 7) & 255) << 8 * i;
    return r;
  }
  case 12:
    return (uint64_t{b} << 32 | a) << (a & 31) >> 32;
  case 13:
    return static_cast<uint32_t>(s >> (b & 31));
  case 14:
    return static_cast<uint32_t>(s < t ? s : t) + 3ull * (a > b ? a : b);
  case 15:
    return (a > b ? a - b : b - a) + 17u;
  case 16:
    return static_cast<uint32_t>(int64_t{s} * t >> 32);
  case 17:
    return x >> (y & 63) ^ x << (y & 31);
  case 18:
    return static_cast<uint32_t>(s % (t | 1));
  default:
    return static_cast<uint8_t>(a) * static_cast<uint16_t>(b);
  }
}

__host__ __device__ uint64_t number(uint64_t i) {
  i = (i + 1) * 0x9e3779b97f4a7c15ull;
  i ^= i >> 31;
  return i % 11 == 0 ? 0 : i % 7 == 0 ? ~0ull : i * 0xbf58476d1ce4e5b9ull;
}

__global__ void compute(uint64_t* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    for (int kind = 0; kind < kinds; ++kind)
      out[kind * n + i] = on_device(kind, number(i), number(i + 1000));
}

int main() {
  constexpr int n = 500;
  static uint64_t got[kinds * n];
  uint64_t* dev;
  if (cudaMalloc(&dev, sizeof got) != cudaSuccess)
    return 1;
  compute<<<(n + 127) / 128, 128>>>(dev, n);
  cudaError_t e = cudaMemcpy(got, dev, sizeof got, cudaMemcpyDeviceToHost);
  if (e != cudaSuccess) {
    printf("%s\n", cudaGetErrorString(e));
    return 1;
  }
  int wrong = 0;
  for (int kind = 0; kind < kinds; ++kind) {
    for (int i = 0; i < n; ++i) {
      uint64_t x = number(i), y = number(i + 1000);
      uint64_t want = on_host(kind, x, y);
      if (got[kind * n + i] != want && ++wrong < 20)
        printf("kind %d of %llx, %llx: %llx, not %llx\n", kind,
               static_cast<unsigned long long>(x),
               static_cast<unsigned long long>(y),
               static_cast<unsigned long long>(got[kind * n + i]),
               static_cast<unsigned long long>(want));
    }
  }
  if (wrong)
    return 1;
  printf("ok\n");
}
