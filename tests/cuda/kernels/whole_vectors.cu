// An aligned vector of up to 16 bytes is read and written at once. CUB's scans
// with look-back keep a state and a value in one vector, and read it while
// another block writes it.
#include "../check.hpp"

#include <cstdint>

constexpr int rounds = 400000;

template <class V>
struct parts;
template <>
struct parts<ulonglong2> {
  static __device__ ulonglong2 make(unsigned i) { return {i, i}; }
  static __device__ bool torn(ulonglong2 v) { return v.x != v.y; }
};
template <>
struct parts<uint4> {
  static __device__ uint4 make(unsigned i) { return {i, i, i, i}; }
  static __device__ bool torn(uint4 v) {
    return v.x != v.y || v.x != v.z || v.x != v.w;
  }
};
template <>
struct parts<uint2> {
  static __device__ uint2 make(unsigned i) { return {i, i}; }
  static __device__ bool torn(uint2 v) { return v.x != v.y; }
};
template <>
struct parts<ushort4> {
  static __device__ ushort4 make(unsigned i) {
    auto k = (unsigned short)i;
    return {k, k, k, k};
  }
  static __device__ bool torn(ushort4 v) {
    return v.x != v.y || v.x != v.z || v.x != v.w;
  }
};

__device__ ulonglong2 read(const ulonglong2* p) {
  ulonglong2 v;
  asm volatile("ld.relaxed.gpu.v2.u64 {%0, %1}, [%2];"
               : "=l"(v.x), "=l"(v.y)
               : "l"(p)
               : "memory");
  return v;
}
__device__ uint4 read(const uint4* p) {
  uint4 v;
  asm volatile("ld.relaxed.gpu.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p)
               : "memory");
  return v;
}
__device__ uint2 read(const uint2* p) {
  uint2 v;
  asm volatile("ld.volatile.global.v2.u32 {%0, %1}, [%2];"
               : "=r"(v.x), "=r"(v.y)
               : "l"(p)
               : "memory");
  return v;
}
__device__ ushort4 read(const ushort4* p) {
  ushort4 v;
  asm volatile("ld.volatile.v4.u16 {%0, %1, %2, %3}, [%4];"
               : "=h"(v.x), "=h"(v.y), "=h"(v.z), "=h"(v.w)
               : "l"(p)
               : "memory");
  return v;
}

__device__ void write(ulonglong2* p, ulonglong2 v) {
  asm volatile("st.relaxed.gpu.v2.u64 [%0], {%1, %2};" ::"l"(p), "l"(v.x),
               "l"(v.y)
               : "memory");
}
__device__ void write(uint4* p, uint4 v) {
  asm volatile("st.relaxed.gpu.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p),
               "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}
__device__ void write(uint2* p, uint2 v) {
  asm volatile("st.volatile.global.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(v.x),
               "r"(v.y)
               : "memory");
}
__device__ void write(ushort4* p, ushort4 v) {
  asm volatile("st.volatile.v4.u16 [%0], {%1, %2, %3, %4};" ::"l"(p), "h"(v.x),
               "h"(v.y), "h"(v.z), "h"(v.w)
               : "memory");
}

/// Returns where a lane's vector lies: in order, backwards, or far apart.
__device__ int place_of(int shape) {
  int lane = threadIdx.x;
  return shape == 0 ? lane : shape == 1 ? 31 - lane : lane * 5 % 32;
}

/// One block writes, and another one reads until the first is done.
template <class V>
__global__ void race(V* at, int shape, int lanes, unsigned* torn,
                     volatile int* done) {
  int place = place_of(shape);
  if ((int)threadIdx.x >= lanes)
    return;
  if (blockIdx.x == 0) {
    for (unsigned i = 0; i < rounds / lanes; ++i)
      write(at + place, parts<V>::make(i));
    if (threadIdx.x == 0)
      *done = 1;
    return;
  }
  while (*done == 0)
    for (int i = 0; i < 100; ++i)
      if (parts<V>::torn(read(at + place)))
        atomicAdd(torn, 1u);
}

template <class V>
void check_type(const char* name) {
  V* at;
  unsigned* torn;
  int* done;
  CHECK(cudaMalloc(&at, 32 * sizeof(V)));
  CHECK(cudaMalloc(&torn, sizeof(*torn)));
  CHECK(cudaMalloc(&done, sizeof(*done)));
  CHECK(cudaMemset(torn, 0, sizeof(*torn)));
  CHECK(cudaMemset(at, 0, 32 * sizeof(V)));
  for (int shape = 0; shape < 3; ++shape)
    for (int lanes : {32, 1}) {
      CHECK(cudaMemset(done, 0, sizeof(*done)));
      race<<<2, 32>>>(at, shape, lanes, torn, done);
      CHECK(cudaDeviceSynchronize());
      unsigned found;
      CHECK(cudaMemcpy(&found, torn, sizeof(found), cudaMemcpyDeviceToHost));
      if (found != 0) {
        std::printf("%s, shape %d, %d lanes: %u were torn\n", name, shape,
                    lanes, found);
        std::exit(1);
      }
    }
  CHECK(cudaFree(at));
  CHECK(cudaFree(torn));
  CHECK(cudaFree(done));
}

int main() {
  check_type<ulonglong2>("ulonglong2");
  check_type<uint4>("uint4");
  check_type<uint2>("uint2");
  check_type<ushort4>("ushort4");
  std::puts("ok");
}
