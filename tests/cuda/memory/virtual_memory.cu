// nvcc: -lcuda
// Virtual memory management as allocators use it: a long range of addresses
// that grows by pieces of memory, a tensor over several pieces, memory that
// moves to another address or is mapped twice, and refused calls.
#include "../check.hpp"

#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void count_up(int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    x[i] += i;
}

size_t granule = 0;
CUmemAllocationProp memory_of_device = {};
CUmemAccessDesc both_ways = {};

CUmemGenericAllocationHandle create(size_t bytes) {
  CUmemGenericAllocationHandle made;
  CHECK(cuMemCreate(&made, bytes, &memory_of_device, 0));
  return made;
}

size_t free_bytes() {
  size_t free = 0, all = 0;
  CHECK(cudaMemGetInfo(&free, &all));
  return free;
}

// Maps, uses, and unmaps from the end, like a caching allocator's expandable
// segment.
void growing() {
  auto before = free_bytes();
  constexpr int pieces = 5;
  CUdeviceptr base = 0;
  CHECK(cuMemAddressReserve(&base, 64 * granule, 0, 0, 0));
  EXPECT(base % granule == 0 && free_bytes() == before);
  for (int i = 0; i < pieces; ++i) {
    auto piece = create(granule);
    CHECK(cuMemMap(base + i * granule, granule, 0, piece, 0));
    CHECK(cuMemSetAccess(base + i * granule, granule, &both_ways, 1));
    CHECK(cuMemRelease(piece)); // Mapped memory stays.
  }
  EXPECT(free_bytes() == before - pieces * granule);
  auto* x = reinterpret_cast<int*>(base);
  int n = static_cast<int>(pieces * granule / sizeof(int));
  CHECK(cudaMemset(x, 0, pieces * granule));
  count_up<<<(n + 255) / 256, 256>>>(x, n);
  std::vector<int> host(n);
  CHECK(cudaMemcpy(host.data(), x, pieces * granule, cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i)
    EXPECT(host[i] == i);
  CHECK(cudaMemcpy(x + 7, host.data(), granule * 3, cudaMemcpyHostToDevice));
  EXPECT(cudaMemset(x, 0, (pieces + 1) * granule) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
  cudaPointerAttributes a;
  CHECK(cudaPointerGetAttributes(&a, x + n - 1));
  EXPECT(a.type == cudaMemoryTypeDevice);

  unsigned long long access = 9;
  CHECK(cuMemGetAccess(&access, &memory_of_device.location, base));
  EXPECT(access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT(cuMemAddressFree(base, 64 * granule) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemUnmap(base + 3 * granule, 2 * granule)); // two at once
  CHECK(cuMemUnmap(base, granule));
  CHECK(cudaMemcpy(host.data(), reinterpret_cast<int*>(base + granule), granule,
                   cudaMemcpyDeviceToHost));
  EXPECT(cudaMemcpy(host.data(), x, 4, cudaMemcpyDeviceToHost) != cudaSuccess);
  (void)cudaGetLastError();
  CHECK(cuMemUnmap(base + granule, 2 * granule));
  EXPECT(free_bytes() == before);
  CHECK(cuMemAddressFree(base, 64 * granule));
}

// The bytes belong to the memory, not to the address.
void moving() {
  CUdeviceptr a = 0, b = 0;
  CHECK(cuMemAddressReserve(&a, 2 * granule, 0, 0, 0));
  CHECK(cuMemAddressReserve(&b, 4 * granule, 0, 0, 0));
  auto memory = create(2 * granule);
  CHECK(cuMemMap(a, 2 * granule, 0, memory, 0));
  CHECK(cuMemSetAccess(a, 2 * granule, &both_ways, 1));
  CHECK(cuMemsetD32(a, 11, granule / 4));
  CHECK(cuMemsetD32(a + granule, 22, granule / 4));
  // Maps it at a second address.
  CHECK(cuMemMap(b + granule, 2 * granule, 0, memory, 0));
  CHECK(cuMemSetAccess(b + granule, 2 * granule, &both_ways, 1));
  int value = 0;
  CHECK(cuMemcpyDtoH(&value, b + 2 * granule, 4));
  EXPECT(value == 22);
  CHECK(cuMemsetD32(b + 2 * granule, 33, 1));
  CHECK(cuMemcpyDtoH(&value, a + granule, 4));
  EXPECT(value == 33);
  CHECK(cuMemUnmap(a, 2 * granule));
  CHECK(cuMemcpyDtoH(&value, b + granule, 4));
  EXPECT(value == 11);

  CUmemGenericAllocationHandle again = 0;
  CHECK(cuMemRetainAllocationHandle(
      &again, reinterpret_cast<void*>(b + granule + 100)));
  EXPECT(again == memory);
  CUmemAllocationProp what = {};
  CHECK(cuMemGetAllocationPropertiesFromHandle(&what, again));
  EXPECT(what.type == CU_MEM_ALLOCATION_TYPE_PINNED &&
         what.location.id == memory_of_device.location.id);
  CHECK(cuMemRelease(again));
  CHECK(cuMemRelease(memory));
  CHECK(cuMemcpyDtoH(&value, b + 2 * granule, 4));
  EXPECT(value == 33);
  CHECK(cuMemUnmap(b + granule, 2 * granule));
  EXPECT(cuMemRelease(memory) != CUDA_SUCCESS);
  CHECK(cuMemAddressFree(a, 2 * granule));
  CHECK(cuMemAddressFree(b, 4 * granule));
}

void refused() {
  CUdeviceptr a = 0;
  CUmemGenericAllocationHandle memory = create(granule);
  CHECK(cuMemAddressReserve(&a, granule, 0, 0, 0));
  // Only whole memory can be mapped (natively, a bad handle ends the program).
  CUmemGenericAllocationHandle longer = create(2 * granule);
  EXPECT(cuMemMap(a, granule, 0, longer, 0) == CUDA_ERROR_NOT_SUPPORTED);
  EXPECT(cuMemMap(a, granule, granule, longer, 0) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(cuMemRelease(longer));
  EXPECT(cuMemMap(a + 4096, granule, 0, memory, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemUnmap(a, granule)); // Nothing is mapped there.
  EXPECT(cuMemUnmap(a + 4096, granule) == CUDA_ERROR_INVALID_VALUE);
  EXPECT(cuMemUnmap(a, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemMap(a, granule, 0, memory, 0));
  EXPECT(cuMemMap(a, granule, 0, memory, 0) == CUDA_ERROR_INVALID_VALUE);
  // It is mapped without access.
  EXPECT(cuMemsetD8(a, 1, 16) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemSetAccess(a, granule, &both_ways, 1));
  CHECK(cuMemsetD8(a, 1, 16));
  EXPECT(cuMemFree(a) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemUnmap(a, granule));
  CHECK(cuMemAddressFree(a, granule));
  CHECK(cuMemRelease(memory));
  size_t all = 0, free = 0;
  CHECK(cudaMemGetInfo(&free, &all));
  EXPECT(cuMemCreate(&memory, all / granule * granule + 1024 * granule,
                     &memory_of_device, 0) == CUDA_ERROR_OUT_OF_MEMORY);
}

int main() {
  int device = 0;
  CHECK(cudaGetDevice(&device));
  CHECK(cudaFree(nullptr));
  int supported = 0;
  CHECK(cuDeviceGetAttribute(
      &supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
      device));
  EXPECT(supported == 1);
  memory_of_device.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory_of_device.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  both_ways.location = memory_of_device.location;
  both_ways.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK(cuMemGetAllocationGranularity(&granule, &memory_of_device,
                                      CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  growing();
  moving();
  refused();
  growing();
  std::printf("ok\n");
}
