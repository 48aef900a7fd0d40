// nvcc: -lcuda
// Memory of the host that the program maps by itself: kernels, copies and the
// program use it at one address, each with the access that it was given.
#include "../check.hpp"

#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

size_t granule = 0;
int device = 0;

__global__ void add(int* x, const int* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    x[i] += y[i];
}

/// The first word of `table` is the address of the words.
__global__ void count_behind(int* const* table, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    table[0][i] = 3 * i;
}

CUmemAllocationProp on_host(CUmemLocationType type, int id = 0) {
  CUmemAllocationProp out = {};
  out.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  out.location.type = type;
  out.location.id = id;
  return out;
}

CUmemAccessDesc access(CUmemLocationType type, int id,
                       CUmemAccess_flags flags) {
  CUmemAccessDesc out = {};
  out.location.type = type;
  out.location.id = id;
  out.flags = flags;
  return out;
}

/// Memory of the host, mapped once.
struct placed {
  CUmemGenericAllocationHandle memory = 0;
  CUdeviceptr at = 0;
  size_t bytes = 0;

  explicit placed(size_t size,
                  CUmemLocationType type = CU_MEM_LOCATION_TYPE_HOST)
      : bytes(size) {
    auto what = on_host(type);
    CHECK(cuMemCreate(&memory, bytes, &what, 0));
    CHECK(cuMemAddressReserve(&at, bytes, 0, 0, 0));
    CHECK(cuMemMap(at, bytes, 0, memory, 0));
    CUmemAccessDesc all[] = {
        access(type, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
        access(CU_MEM_LOCATION_TYPE_DEVICE, device,
               CU_MEM_ACCESS_FLAGS_PROT_READWRITE)};
    CHECK(cuMemSetAccess(at, bytes, all, 2));
  }
  ~placed() {
    CHECK(cuMemUnmap(at, bytes));
    CHECK(cuMemRelease(memory));
    CHECK(cuMemAddressFree(at, bytes));
  }
  int* words() const { return reinterpret_cast<int*>(at); }
};

void kernels_and_program() {
  placed x{granule}, y{2 * granule, CU_MEM_LOCATION_TYPE_HOST_NUMA};
  int n = static_cast<int>(granule / sizeof(int));
  for (int i = 0; i < n; i += 1000)
    EXPECT(x.words()[i] == 0);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < n; ++i)
      y.words()[i] = i + round;
    add<<<(n + 255) / 256, 256>>>(x.words(), y.words(), n);
    CHECK(cudaDeviceSynchronize());
  }
  for (int i = 0; i < n; ++i)
    EXPECT(x.words()[i] == 3 * i + 3);
}

void addresses_behind_addresses() {
  placed x{granule};
  int** table = nullptr;
  CHECK(cudaMalloc(&table, sizeof(int*)));
  auto* words = x.words();
  CHECK(cudaMemcpy(table, &words, sizeof words, cudaMemcpyHostToDevice));
  count_behind<<<4, 256>>>(table, 1000);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 1000; ++i)
    EXPECT(words[i] == 3 * i);
  CHECK(cudaFree(table));
}

void copies_and_fills() {
  placed x{granule};
  int *on_device = nullptr, *words = x.words();
  constexpr int n = 5000;
  CHECK(cudaMalloc(&on_device, n * sizeof(int)));
  for (int i = 0; i < n; ++i)
    words[i] = i;
  CHECK(cudaMemcpy(on_device, words, n * sizeof(int), cudaMemcpyDefault));
  CHECK(cudaMemset(words, 0, n * sizeof(int)));
  EXPECT(words[0] == 0 && words[n - 1] == 0);
  CHECK(cudaMemcpyAsync(words, on_device, n * sizeof(int),
                        cudaMemcpyDeviceToHost));
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < n; ++i)
    EXPECT(words[i] == i);
  CHECK(
      cudaMemcpy(words + n, words + 1, n / 2 * sizeof(int), cudaMemcpyDefault));
  EXPECT(words[n] == 1 && words[n + n / 2 - 1] == n / 2);
  CHECK(cuStreamWriteValue32(nullptr, x.at + 8, 77, 0));
  CHECK(cudaDeviceSynchronize());
  EXPECT(words[2] == 77);
  EXPECT(cuMemsetD8(x.at + granule - 8, 1, 16) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cudaFree(on_device));

  cudaPointerAttributes a;
  CHECK(cudaPointerGetAttributes(&a, words + 10));
  EXPECT(a.devicePointer == words + 10 && a.hostPointer == words + 10);
}

void two_mappings() {
  placed x{granule};
  CUdeviceptr at = 0;
  CHECK(cuMemAddressReserve(&at, 3 * granule, 0, 0, 0));
  CHECK(cuMemMap(at + granule, granule, 0, x.memory, 0));
  auto by_host =
      access(CU_MEM_LOCATION_TYPE_HOST, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CHECK(cuMemSetAccess(at + granule, granule, &by_host, 1));
  auto* other = reinterpret_cast<int*>(at + granule);
  x.words()[7] = 5;
  EXPECT(other[7] == 5);
  other[8] = 6;
  EXPECT(x.words()[8] == 6);
  CHECK(cuMemUnmap(at + granule, granule));
  CHECK(cuMemAddressFree(at, 3 * granule));
  EXPECT(x.words()[8] == 6);
}

sigjmp_buf back;

bool can_touch(volatile int* x, bool write) {
  struct sigaction now = {}, before = {};
  now.sa_handler = [](int) { siglongjmp(back, 1); };
  CHECK(static_cast<CUresult>(sigaction(SIGSEGV, &now, &before)));
  auto good = sigsetjmp(back, 1) == 0;
  if (good) {
    auto value = *x;
    if (write)
      *x = value;
  }
  sigaction(SIGSEGV, &before, nullptr);
  return good;
}

void rights() {
  placed x{granule};
  auto set = [&](CUmemLocationType type, CUmemAccess_flags flags) {
    auto what =
        access(type, type == CU_MEM_LOCATION_TYPE_DEVICE ? device : 0, flags);
    CHECK(cuMemSetAccess(x.at, granule, &what, 1));
  };
  auto get = [&](CUmemLocationType type) {
    CUmemLocation by = {};
    by.type = type;
    by.id = type == CU_MEM_LOCATION_TYPE_DEVICE ? device : 0;
    unsigned long long out = 99;
    CHECK(cuMemGetAccess(&out, &by, x.at));
    return out;
  };
  EXPECT(get(CU_MEM_LOCATION_TYPE_HOST) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  x.words()[0] = 4;
  set(CU_MEM_LOCATION_TYPE_HOST, CU_MEM_ACCESS_FLAGS_PROT_READ);
  EXPECT(can_touch(x.words(), false) && !can_touch(x.words(), true));
  set(CU_MEM_LOCATION_TYPE_HOST, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  // A host without access has the device's, says the driver, but a node none.
  EXPECT(get(CU_MEM_LOCATION_TYPE_HOST) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT(get(CU_MEM_LOCATION_TYPE_HOST_NUMA) == CU_MEM_ACCESS_FLAGS_PROT_NONE);
  EXPECT(get(CU_MEM_LOCATION_TYPE_DEVICE) ==
         CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT(!can_touch(x.words(), false));
  // The device has its access still.
  int value = 0;
  CHECK(cudaMemcpy(&value, x.words(), sizeof value, cudaMemcpyDefault));
  EXPECT(value == 4);
  set(CU_MEM_LOCATION_TYPE_HOST_NUMA, CU_MEM_ACCESS_FLAGS_PROT_READ);
  EXPECT(get(CU_MEM_LOCATION_TYPE_HOST) == CU_MEM_ACCESS_FLAGS_PROT_READ);
  EXPECT(can_touch(x.words(), false) && !can_touch(x.words(), true));
  set(CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  CHECK(cuMemcpyDtoH(&value, x.at, sizeof value));
}

void properties_and_errors() {
  CUmemGenericAllocationHandle memory = 0;
  auto what = on_host(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT);
  EXPECT(cuMemCreate(&memory, granule, &what, 0) == CUDA_ERROR_INVALID_VALUE);
  what = on_host(CU_MEM_LOCATION_TYPE_HOST);
  what.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  EXPECT(cuMemCreate(&memory, granule, &what, 0) == CUDA_ERROR_INVALID_VALUE);
  what = on_host(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0);
  CHECK(cuMemCreate(&memory, granule, &what, 0));
  CUmemAllocationProp told = {};
  CHECK(cuMemGetAllocationPropertiesFromHandle(&told, memory));
  EXPECT(told.location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA &&
         told.location.id == 0 && told.type == CU_MEM_ALLOCATION_TYPE_PINNED);
  CHECK(cuMemRelease(memory));
  EXPECT(cuMemRelease(memory) == CUDA_ERROR_INVALID_VALUE);
}

/// Memory that was freed comes back zeroed, and costs nothing of the quota.
void again_and_again() {
  size_t before = 0, now = 0, all = 0;
  CHECK(cudaMemGetInfo(&before, &all));
  for (int i = 0; i < 30; ++i) {
    placed x{2 * granule};
    EXPECT(x.words()[i] == 0);
    x.words()[i] = i + 1;
    CHECK(cudaMemGetInfo(&now, &all));
    EXPECT(now == before);
  }
}

} // namespace

int main() {
  CHECK(cudaGetDevice(&device));
  CHECK(cudaFree(nullptr));
  int host = 0, nodes = 0;
  CHECK(cuDeviceGetAttribute(
      &host, CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
      device));
  CHECK(cuDeviceGetAttribute(
      &nodes, CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
      device));
  auto what = on_host(CU_MEM_LOCATION_TYPE_HOST);
  CHECK(cuMemGetAllocationGranularity(&granule, &what,
                                      CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  if (host == 0 || nodes == 0) {
    CUmemGenericAllocationHandle memory = 0;
    EXPECT(host != 0 ||
           cuMemCreate(&memory, granule, &what, 0) == CUDA_ERROR_NOT_SUPPORTED);
    std::printf("ok\n");
    return 0;
  }
  kernels_and_program();
  addresses_behind_addresses();
  copies_and_fills();
  two_mappings();
  rights();
  properties_and_errors();
  again_and_again();
  std::printf("ok\n");
}
