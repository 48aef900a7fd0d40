// nvcc: -lcuda
// Memory that one process makes and another one maps, passed as file
// descriptors: memory of cuMemCreate, and allocations of a pool.
#include "../sharing/two_processes.hpp"

#include <cstdint>
#include <cstring>
#include <vector>

#include <sched.h>
#include <unistd.h>

constexpr auto as_file = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
CUmemLocation on_device = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
size_t granule = 0;

__global__ void fill(unsigned* x, size_t n, unsigned factor) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += gridDim.x * blockDim.x)
    x[i] = static_cast<unsigned>(i) * factor;
}

__global__ void add(unsigned* x, size_t n, unsigned by) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += gridDim.x * blockDim.x)
    x[i] += by;
}

static void expect(CUdeviceptr x, size_t n, unsigned factor, unsigned by) {
  std::vector<unsigned> h(n);
  CHECK(cuMemcpyDtoH(h.data(), x, n * sizeof(unsigned)));
  for (size_t i = 0; i < n; ++i)
    EXPECT(h[i] == static_cast<unsigned>(i) * factor + by);
}

static unsigned* numbers(CUdeviceptr at) {
  return reinterpret_cast<unsigned*>(at);
}

/// Uses the last device, to distinguish it from the default one.
static void start() {
  int count = 0;
  CHECK(cudaGetDeviceCount(&count));
  on_device.id = count - 1;
  CHECK(cudaSetDevice(on_device.id));
  CUmemAllocationProp what = {};
  what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  what.location = on_device;
  CHECK(cuMemGetAllocationGranularity(&granule, &what,
                                      CU_MEM_ALLOC_GRANULARITY_MINIMUM));
}

static CUmemGenericAllocationHandle create(size_t bytes, unsigned types) {
  CUmemAllocationProp what = {};
  what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  what.location = on_device;
  what.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(types);
  CUmemGenericAllocationHandle out;
  CHECK(cuMemCreate(&out, bytes, &what, 0));
  return out;
}

/// Maps the memory at addresses that this process chooses.
static CUdeviceptr show(CUmemGenericAllocationHandle what, size_t bytes) {
  CUdeviceptr at = 0;
  CUmemAccessDesc both_ways = {on_device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CHECK(cuMemAddressReserve(&at, bytes, 0, 0, 0));
  CHECK(cuMemMap(at, bytes, 0, what, 0));
  CHECK(cuMemSetAccess(at, bytes, &both_ways, 1));
  return at;
}

static void hide(CUdeviceptr at, size_t bytes) {
  CHECK(cuMemUnmap(at, bytes));
  CHECK(cuMemAddressFree(at, bytes));
}

static int file_of(CUmemGenericAllocationHandle what) {
  int out = -1;
  CHECK(cuMemExportToShareableHandle(&out, what, as_file, 0));
  return out;
}

static void* as_pointer(int file) {
  return reinterpret_cast<void*>(static_cast<intptr_t>(file));
}

static CUmemGenericAllocationHandle memory_of(int file) {
  CUmemGenericAllocationHandle out;
  CHECK(cuMemImportFromShareableHandle(&out, as_pointer(file), as_file));
  return out;
}

static size_t free_bytes() {
  size_t free = 0, all = 0;
  CHECK(cuMemGetInfo(&free, &all));
  return free;
}

// -- what cuMemCreate made

static void lend(line other) {
  start();
  auto bytes = 5 * granule;
  auto n = bytes / sizeof(unsigned);
  auto memory = create(bytes, as_file);
  auto at = show(memory, bytes);
  fill<<<64, 128>>>(numbers(at), n, 3);
  // Exports it while work runs, and maps it a second time.
  auto file = file_of(memory);
  auto again = show(memory, bytes);
  expect(again, n, 3, 0);
  CHECK(cuMemRelease(memory)); // Mapped memory stays.
  other.send(bytes);
  other.send_file(file);
  other.meet(); // The other one has added.
  expect(at, n, 3, 1000);
  add<<<64, 128>>>(numbers(again), n, 1);
  CHECK(cudaDeviceSynchronize());
  other.meet();
  // After it is unmapped here, the descriptor still keeps the memory.
  hide(at, bytes);
  hide(again, bytes);
  memory = memory_of(file);
  at = show(memory, bytes);
  expect(at, n, 3, 1001);
  hide(at, bytes);
  CHECK(cuMemRelease(memory));
  close(file);
  other.meet();
  other.meet(); // The other one still has it.
}

static void borrow(line other) {
  start();
  auto bytes = other.receive<size_t>();
  auto n = bytes / sizeof(unsigned);
  auto file = other.receive_file();
  // Its device does not depend on the current device.
  CHECK(cudaSetDevice(0));
  auto memory = memory_of(file);
  CHECK(cudaSetDevice(on_device.id));
  CUmemAllocationProp what = {};
  CHECK(cuMemGetAllocationPropertiesFromHandle(&what, memory));
  EXPECT(what.type == CU_MEM_ALLOCATION_TYPE_PINNED &&
         what.location.type == on_device.type &&
         what.location.id == on_device.id);
  auto at = show(memory, bytes);
  auto second = memory_of(file);
  auto beside = show(second, bytes);
  CHECK(cuMemRelease(second));
  add<<<64, 128>>>(numbers(at), n, 1000);
  CHECK(cudaDeviceSynchronize());
  expect(beside, n, 3, 1000);
  other.meet();
  other.meet();
  expect(at, n, 3, 1001);
  close(file);
  CHECK(cuMemRelease(memory));
  other.meet(); // The maker does not have it any more.
  expect(beside, n, 3, 1001);
  hide(at, bytes);
  hide(beside, bytes);
  other.meet();
}

// -- the end of one process

static void hand_out(line other) {
  start();
  auto bytes = 16 * granule;
  auto before = free_bytes();
  auto memory = create(bytes, as_file);
  auto file = file_of(memory);
  other.send_file(file);
  close(file);
  CHECK(cuMemRelease(memory));
  other.meet(); // The other one has imported it.
  EXPECT(free_bytes() + bytes <= before);
  other.meet();
  // The other one's end releases it, at an undefined time. On a GPU of its own,
  // the memory of the other's context is freed as well.
  other.wait_for_end();
  while (free_bytes() < before)
    sched_yield();
}

static void leave_with_it(line other) {
  start();
  auto memory = memory_of(other.receive_file());
  show(memory, 16 * granule);
  other.meet();
  other.meet();
  _exit(0);
}

static void outlive(line other) {
  start();
  auto file = other.receive_file();
  auto memory = memory_of(file);
  auto at = show(memory, granule);
  other.meet();
  other.wait_for_end();
  auto n = granule / sizeof(unsigned);
  add<<<64, 128>>>(numbers(at), n, 1);
  expect(at, n, 3, 1);
  hide(at, granule);
  CHECK(cuMemRelease(memory));
}

static void lend_and_leave(line other) {
  start();
  auto memory = create(granule, as_file);
  fill<<<64, 128>>>(numbers(show(memory, granule)), granule / sizeof(unsigned),
                    3);
  CHECK(cudaDeviceSynchronize());
  other.send_file(file_of(memory));
  other.meet();
  _exit(0);
}

// -- quotas and refusals

static bool alone() {
  start();
  auto bytes = 16 * granule;
  auto before = free_bytes();
  auto memory = create(bytes, as_file);
  auto file = file_of(memory);
  auto same = memory_of(file);
  CHECK(cuMemRelease(memory));
  CHECK(cuMemRelease(same));
  EXPECT(free_bytes() + bytes <= before); // The descriptor keeps the memory.
  close(file);
  EXPECT(free_bytes() == before);

  auto own = create(granule, CU_MEM_HANDLE_TYPE_NONE);
  memory = create(granule, as_file);
  EXPECT(cuMemExportToShareableHandle(&file, own, as_file, 0) != CUDA_SUCCESS);
  EXPECT(cuMemExportToShareableHandle(&file, memory, as_file, 1) !=
         CUDA_SUCCESS);
  int ends[2];
  EXPECT(pipe(ends) == 0);
  EXPECT(cuMemImportFromShareableHandle(&same, as_pointer(ends[0]), as_file) !=
         CUDA_SUCCESS);
  CHECK(cuMemRelease(memory));
  CHECK(cuMemRelease(own));
  return true;
}

// -- pools

constexpr size_t few = 250, many = 1 << 20;

static CUmemoryPool make_pool(CUmemAllocationHandleType types) {
  CUmemPoolProps what = {};
  what.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  what.location = on_device;
  what.handleTypes = types;
  CUmemoryPool out;
  CHECK(cuMemPoolCreate(&out, &what));
  return out;
}

static CUmemPoolPtrExportData name_of(CUdeviceptr at) {
  CUmemPoolPtrExportData out;
  CHECK(cuMemPoolExportPointer(&out, at));
  return out;
}

static CUdeviceptr allocate(CUmemoryPool from, size_t n) {
  CUdeviceptr out = 0;
  CHECK(cuMemAllocFromPoolAsync(&out, n * sizeof(unsigned), from, nullptr));
  return out;
}

static void lend_pool(line other) {
  start();
  auto pool = make_pool(as_file), own = make_pool(CU_MEM_HANDLE_TYPE_NONE);
  int file = -1;
  EXPECT(cuMemPoolExportToShareableHandle(&file, own, as_file, 0) !=
         CUDA_SUCCESS);
  CHECK(cuMemPoolExportToShareableHandle(&file, pool, as_file, 0));
  auto small = allocate(pool, few), large = allocate(pool, many);
  fill<<<1, 64>>>(numbers(small), few, 5);
  fill<<<64, 128>>>(numbers(large), many, 7);
  CHECK(cudaDeviceSynchronize());
  other.send_file(file);
  close(file);
  other.send(name_of(small));
  other.send(name_of(large));
  other.meet();
  expect(small, few, 5, 1);
  expect(large, many, 7, 2);
  other.meet(); // The other one has freed both.
  CHECK(cuMemFreeAsync(small, nullptr));
  CHECK(cuMemFreeAsync(large, nullptr));
  CHECK(cudaDeviceSynchronize());
  CHECK(cuMemPoolDestroy(pool));
  CHECK(cuMemPoolDestroy(own));
}

static void borrow_pool(line other) {
  start();
  auto file = other.receive_file();
  CUmemoryPool pool;
  CHECK(
      cuMemPoolImportFromShareableHandle(&pool, as_pointer(file), as_file, 0));
  close(file);
  auto small_name = other.receive<CUmemPoolPtrExportData>();
  auto large_name = other.receive<CUmemPoolPtrExportData>();
  CUdeviceptr small = 0, large = 0, none = 0;
  EXPECT(cuMemAllocFromPoolAsync(&none, 64, pool, nullptr) != CUDA_SUCCESS);
  EXPECT(cuDeviceSetMemPool(on_device.id, pool) != CUDA_SUCCESS);
  auto garbage = small_name;
  std::memset(&garbage, 0x5a, sizeof(garbage));
  EXPECT(cuMemPoolImportPointer(&none, pool, &garbage) != CUDA_SUCCESS);
  CHECK(cuMemPoolImportPointer(&small, pool, &small_name));
  CHECK(cuMemPoolImportPointer(&large, pool, &large_name));
  expect(small, few, 5, 0);
  expect(large, many, 7, 0);
  add<<<1, 64>>>(numbers(small), few, 1);
  add<<<64, 128>>>(numbers(large), many, 2);
  CHECK(cudaDeviceSynchronize());
  other.meet();
  CHECK(cuMemFreeAsync(small, nullptr));
  CHECK(cuMemFree(large));
  CHECK(cudaDeviceSynchronize());
  other.meet();
  CHECK(cuMemPoolDestroy(pool));
}

template <class Run>
static bool in_child(const Run& run) {
  std::fflush(stdout);
  auto pid = fork();
  if (pid == 0) {
    auto good = run();
    std::fflush(stdout);
    _exit(good ? 0 : 1);
  }
  int status = 0;
  return waitpid(pid, &status, 0) == pid && status == 0;
}

int main() {
  // CUDA is used only in children, because this process forks several times.
  if (!in_child([] { return run_two(lend, borrow); }) || !in_child(alone) ||
      !in_child([] { return run_two(hand_out, leave_with_it); }) ||
      !in_child([] { return run_two(outlive, lend_and_leave); }) ||
      !in_child([] { return run_two(lend_pool, borrow_pool); }))
    return 1;
  std::printf("ok\n");
}
