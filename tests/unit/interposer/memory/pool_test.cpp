// What memory pools hold, and how it counts.
#include "tests/unit/interposer/driver_fixture.hpp"

#include "schema/base/ids.hpp"

#include <cstdint>
#include <utility>

using namespace vgpu;
using namespace vgpu::test;

namespace {

constexpr std::uint64_t step = granule_bytes;

std::uint64_t room_left() {
  std::size_t free = 0, total = 0;
  REQUIRE_OK(cuMemGetInfo(&free, &total));
  return free;
}

struct pool_fixture : driver_fixture {
  pool_fixture() {
    CUmemPoolProps what{};
    what.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    what.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    REQUIRE_OK(cuMemPoolCreate(&pool, &what));
    before = room_left();
  }
  ~pool_fixture() {
    if (pool != nullptr)
      (void)cuMemPoolDestroy(pool);
  }

  std::uint64_t get(CUmemPool_attribute which) {
    cuuint64_t out = 0;
    REQUIRE_OK(cuMemPoolGetAttribute(pool, which, &out));
    return out;
  }
  void set(CUmemPool_attribute which, cuuint64_t to) {
    REQUIRE_OK(cuMemPoolSetAttribute(pool, which, &to));
  }
  /// Requires the present use and reserve.
  void holds(std::uint64_t used, std::uint64_t reserved) {
    BOOST_TEST(get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == used);
    BOOST_TEST(get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == reserved);
  }
  CUdeviceptr allocate(std::uint64_t bytes) {
    CUdeviceptr out = 0;
    REQUIRE_OK(cuMemAllocFromPoolAsync(&out, bytes, pool, nullptr));
    return out;
  }
  static void release(CUdeviceptr x) { REQUIRE_OK(cuMemFreeAsync(x, nullptr)); }

  CUmemoryPool pool = nullptr;
  std::uint64_t before = 0;
};

CUmemPoolProps pool_at(CUmemLocationType type, unsigned shared_by = 0) {
  CUmemPoolProps out{};
  out.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  out.location = {type, {0}};
  out.handleTypes = static_cast<CUmemAllocationHandleType>(shared_by);
  return out;
}

/// Makes pinned memory at a place that CUDA does not have, and a pool of such
/// memory. Returns what both calls answer, or CUDA_ERROR_UNKNOWN where they do
/// not agree.
CUresult make_at(CUmemLocationType type, unsigned shared_by = 0) {
  auto like = pool_at(type, shared_by);
  CUmemAllocationProp what{};
  what.type = like.allocType;
  what.location = like.location;
  what.requestedHandleTypes = like.handleTypes;
  CUmemGenericAllocationHandle memory = 0;
  auto code = cuMemCreate(&memory, step, &what, 0);
  CUmemoryPool made = nullptr;
  return cuMemPoolCreate(&made, &like) == code ? code : CUDA_ERROR_UNKNOWN;
}

/// A pool of memory of the host.
struct host_pool : driver_fixture {
  CUmemoryPool pool = nullptr;
  CUstream first = nullptr, second = nullptr;

  host_pool() {
    auto what = pool_at(CU_MEM_LOCATION_TYPE_HOST);
    REQUIRE_OK(cuMemPoolCreate(&pool, &what));
    for (auto* x : {&first, &second})
      REQUIRE_OK(cuStreamCreate(x, CU_STREAM_NON_BLOCKING));
  }
  ~host_pool() {
    if (pool != nullptr)
      (void)cuMemPoolDestroy(pool);
    for (auto* x : {first, second})
      (void)cuStreamDestroy(x);
  }
  CUdeviceptr allocate(std::uint64_t bytes, CUstream in) {
    CUdeviceptr out = 0;
    REQUIRE_OK(cuMemAllocFromPoolAsync(&out, bytes, pool, in));
    return out;
  }
  static int freed() {
    constexpr std::uint16_t host_free_number = 4;
    REQUIRE_OK(cuCtxSynchronize());
    return fake().counts()[host_free_number];
  }
  /// Returns the same when what earlier pools left has ended. A wait learns of
  /// the end of work where calls came before it, and the next one frees.
  int freed_before() {
    auto p = allocate(64, second);
    (void)freed();
    (void)freed();
    REQUIRE_OK(cuMemFree(p));
    return freed();
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(memory_pools, pool_fixture)

BOOST_AUTO_TEST_CASE(freed_memory_stays_reserved_until_the_program_waits) {
  auto p = allocate(5 * step - 100);
  holds(5 * step - 100, 5 * step);
  BOOST_TEST(room_left() == before - 5 * step);
  release(p);
  holds(0, 5 * step);
  BOOST_TEST(room_left() == before - 5 * step);
  REQUIRE_OK(cuStreamSynchronize(nullptr));
  holds(0, 0);
  BOOST_TEST(room_left() == before);
}

BOOST_AUTO_TEST_CASE(every_kind_of_wait_releases) {
  CUevent event = nullptr;
  REQUIRE_OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
  for (int kind = 0; kind < 3; ++kind) {
    release(allocate(3 * step));
    REQUIRE_OK(cuEventRecord(event, nullptr));
    holds(0, 3 * step);
    if (kind == 0)
      REQUIRE_OK(cuEventSynchronize(event));
    else if (kind == 1)
      REQUIRE_OK(cuStreamSynchronize(nullptr));
    else
      REQUIRE_OK(cuCtxSynchronize());
    holds(0, 0);
  }
  REQUIRE_OK(cuEventDestroy(event));
}

BOOST_AUTO_TEST_CASE(memory_below_the_threshold_stays_reserved) {
  set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 4 * step);
  BOOST_TEST(get(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) == 4 * step);
  auto p = allocate(3 * step), q = allocate(3 * step);
  release(p);
  release(q);
  holds(0, 6 * step);
  REQUIRE_OK(cuCtxSynchronize());
  holds(0, 4 * step);
  BOOST_TEST(room_left() == before - 4 * step);
  // It is used before other memory is reserved.
  auto r = allocate(2 * step);
  holds(2 * step, 4 * step);
  BOOST_TEST(room_left() == before - 4 * step);
  release(r);
  set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~cuuint64_t{0});
  release(allocate(9 * step));
  REQUIRE_OK(cuCtxSynchronize());
  holds(0, 9 * step);
  // A lower threshold acts at the next wait.
  set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, step);
  holds(0, 9 * step);
  REQUIRE_OK(cuCtxSynchronize());
  holds(0, step);
}

BOOST_AUTO_TEST_CASE(a_pool_is_trimmed_to_a_size) {
  set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~cuuint64_t{0});
  auto p = allocate(2 * step);
  release(allocate(6 * step));
  REQUIRE_OK(cuCtxSynchronize());
  holds(2 * step, 8 * step);
  REQUIRE_OK(cuMemPoolTrimTo(pool, 100 * step));
  holds(2 * step, 8 * step);
  // At least what is asked for stays, and what is in use.
  REQUIRE_OK(cuMemPoolTrimTo(pool, 5 * step + 1));
  holds(2 * step, 6 * step);
  REQUIRE_OK(cuMemPoolTrimTo(pool, step));
  holds(2 * step, 2 * step);
  release(p);
  REQUIRE_OK(cuMemPoolTrimTo(pool, 0));
  holds(0, 0);
  BOOST_TEST(room_left() == before);
  CHECK_CODE(cuMemPoolTrimTo(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(high_water_marks_are_reset_to_the_present_values) {
  auto p = allocate(step);
  release(allocate(4 * step));
  BOOST_TEST(get(CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 5 * step);
  BOOST_TEST(get(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) == 5 * step);
  cuuint64_t one = 1;
  for (auto which :
       {CU_MEMPOOL_ATTR_USED_MEM_HIGH, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH})
    CHECK_CODE(cuMemPoolSetAttribute(pool, which, &one),
               CUDA_ERROR_INVALID_VALUE);
  set(CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0);
  BOOST_TEST(get(CU_MEMPOOL_ATTR_USED_MEM_HIGH) == step);
  BOOST_TEST(get(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) == 5 * step);
  set(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0);
  BOOST_TEST(get(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) == 5 * step);
  REQUIRE_OK(cuCtxSynchronize());
  set(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0);
  BOOST_TEST(get(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) == step);
  for (auto which :
       {CU_MEMPOOL_ATTR_USED_MEM_CURRENT, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT})
    CHECK_CODE(cuMemPoolSetAttribute(pool, which, &one),
               CUDA_ERROR_INVALID_VALUE);
  release(p);
}

BOOST_AUTO_TEST_CASE(flags_of_reuse_are_read_back) {
  for (auto which : {CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
                     CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
                     CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES}) {
    int is = 0;
    REQUIRE_OK(cuMemPoolGetAttribute(pool, which, &is));
    BOOST_TEST(is == 1);
    is = 0;
    REQUIRE_OK(cuMemPoolSetAttribute(pool, which, &is));
    is = 7;
    REQUIRE_OK(cuMemPoolGetAttribute(pool, which, &is));
    BOOST_TEST(is == 0);
  }
}

BOOST_AUTO_TEST_CASE(other_memory_gets_what_a_pool_only_reserves) {
  set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~cuuint64_t{0});
  release(allocate(before / step / 2 * step));
  REQUIRE_OK(cuCtxSynchronize());
  CUdeviceptr p = 0;
  CHECK_CODE(cuMemAlloc(&p, before + 1), CUDA_ERROR_OUT_OF_MEMORY);
  REQUIRE_OK(cuMemAlloc(&p, before));
  holds(0, 0);
  REQUIRE_OK(cuMemFree(p));
  release(allocate(before / step / 2 * step));
  CUmemGenericAllocationHandle handle = 0;
  CUmemAllocationProp what{};
  what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  what.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  REQUIRE_OK(cuMemCreate(&handle, before, &what, 0));
  REQUIRE_OK(cuMemRelease(handle));
  BOOST_TEST(room_left() == before);
}

BOOST_AUTO_TEST_CASE(a_pools_end_gives_up_its_reserve) {
  set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~cuuint64_t{0});
  auto p = allocate(2 * step);
  release(allocate(6 * step));
  REQUIRE_OK(cuMemPoolDestroy(std::exchange(pool, nullptr)));
  BOOST_TEST(room_left() == before - 2 * step);
  release(p);
  BOOST_TEST(room_left() == before);
  REQUIRE_OK(cuCtxSynchronize());
}

BOOST_AUTO_TEST_CASE(places_on_the_host_are_checked_as_cuda_says) {
  CHECK_CODE(make_at(CU_MEM_LOCATION_TYPE_HOST_NUMA,
                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
             CUDA_ERROR_NOT_SUPPORTED);
  CHECK_CODE(make_at(CU_MEM_LOCATION_TYPE_HOST,
                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
             CUDA_ERROR_INVALID_VALUE);
  for (auto type :
       {CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, CU_MEM_LOCATION_TYPE_INVALID}) {
    CHECK_CODE(make_at(type), CUDA_ERROR_INVALID_VALUE);
    CUmemLocation at{type, {0}};
    CUmemoryPool got = nullptr;
    CHECK_CODE(cuMemGetDefaultMemPool(&got, &at, CU_MEM_ALLOCATION_TYPE_PINNED),
               CUDA_ERROR_INVALID_VALUE);
    CHECK_CODE(cuMemGetMemPool(&got, &at, CU_MEM_ALLOCATION_TYPE_PINNED),
               CUDA_ERROR_INVALID_VALUE);
    CHECK_CODE(cuMemSetMemPool(&at, CU_MEM_ALLOCATION_TYPE_PINNED, pool),
               CUDA_ERROR_INVALID_VALUE);
  }
}

BOOST_AUTO_TEST_CASE(a_pool_grows_to_its_maximum_and_no_further) {
  REQUIRE_OK(cuMemPoolDestroy(pool));
  CUmemPoolProps what{};
  what.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  what.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  what.maxSize = 4 * step;
  REQUIRE_OK(cuMemPoolCreate(&pool, &what));
  auto p = allocate(3 * step);
  CUdeviceptr q = 0;
  BOOST_TEST(cuMemAllocFromPoolAsync(&q, 2 * step, pool, nullptr) ==
             CUDA_ERROR_OUT_OF_MEMORY);
  BOOST_TEST(cuMemAllocFromPoolAsync(&q, ~std::size_t{0} - step, pool,
                                     nullptr) == CUDA_ERROR_OUT_OF_MEMORY);
  holds(3 * step, 3 * step);
  auto r = allocate(step);
  release(p);
  p = allocate(2 * step); // what was freed is room again
  release(p);
  release(r);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(pools_of_the_host, host_pool)

BOOST_AUTO_TEST_CASE(their_memory_is_pinned_memory) {
  std::size_t before = 0, now = 0, total = 0;
  REQUIRE_OK(cuMemGetInfo(&before, &total));
  auto p = allocate(5000, first);
  auto* words = reinterpret_cast<volatile int*>(p); // NOLINT
  words[100] = 7;
  BOOST_TEST(words[100] == 7);
  REQUIRE_OK(cuMemGetInfo(&now, &total));
  BOOST_TEST(now == before); // It is no memory of a device.
  unsigned type = 0;
  CUmemoryPool of = nullptr;
  REQUIRE_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
  REQUIRE_OK(
      cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
  BOOST_TEST(type == unsigned{CU_MEMORYTYPE_HOST});
  BOOST_TEST(of == pool);
  CHECK_CODE(cuMemFreeHost(reinterpret_cast<void*>(p)), // NOLINT
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemFreeAsync(p + 8, first), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuMemFreeAsync(p, first));
  CHECK_CODE(cuMemFreeAsync(p, first), CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(a_stream_gets_its_block_again_and_another_one_does_not) {
  auto p = allocate(5000, first);
  REQUIRE_OK(cuMemFreeAsync(p, first));
  auto elsewhere = allocate(5000, second);
  BOOST_TEST(elsewhere != p);
  BOOST_TEST(allocate(5000, first) == p);
  REQUIRE_OK(cuMemFreeAsync(p, first));
  // Nothing in the first stream uses it any more.
  cuuint64_t all = ~cuuint64_t{0};
  REQUIRE_OK(
      cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
  REQUIRE_OK(cuCtxSynchronize());
  BOOST_TEST(allocate(5000, second) == p);
  REQUIRE_OK(cuMemFreeAsync(p, second));
  REQUIRE_OK(cuMemFreeAsync(elsewhere, second));
}

BOOST_AUTO_TEST_CASE(blocks_end_when_no_work_uses_them) {
  auto before = freed_before();
  REQUIRE_OK(cuMemFreeAsync(allocate(step, first), first));
  (void)freed();
  BOOST_TEST(freed() == before + 1);
  REQUIRE_OK(cuMemFreeAsync(allocate(step, first), first));
  REQUIRE_OK(cuMemPoolDestroy(std::exchange(pool, nullptr)));
  (void)freed();
  BOOST_TEST(freed() == before + 2);
}

BOOST_AUTO_TEST_CASE(memory_outlives_its_pool) {
  auto before = freed_before();
  auto p = allocate(3 * step, first);
  REQUIRE_OK(cuMemPoolDestroy(std::exchange(pool, nullptr)));
  *reinterpret_cast<volatile int*>(p) = 1; // NOLINT
  REQUIRE_OK(cuMemFreeAsync(p, first));
  (void)freed();
  BOOST_TEST(freed() == before + 1);
}

BOOST_AUTO_TEST_CASE(the_host_has_a_default_and_a_current_pool) {
  CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, {0}},
      node{CU_MEM_LOCATION_TYPE_HOST_NUMA, {0}};
  constexpr auto pinned = CU_MEM_ALLOCATION_TYPE_PINNED;
  CUmemoryPool usual = nullptr, of_node = nullptr, got = nullptr;
  REQUIRE_OK(cuMemGetDefaultMemPool(&usual, &host, pinned));
  REQUIRE_OK(cuMemGetDefaultMemPool(&of_node, &node, pinned));
  BOOST_TEST(usual != of_node);
  REQUIRE_OK(cuMemGetMemPool(&got, &host, pinned));
  BOOST_TEST(got == usual);
  REQUIRE_OK(cuMemSetMemPool(&host, pinned, pool));
  REQUIRE_OK(cuMemGetMemPool(&got, &host, pinned));
  BOOST_TEST(got == pool);
  CHECK_CODE(cuMemSetMemPool(&node, pinned, pool), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuDeviceSetMemPool(0, pool), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemPoolDestroy(usual), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuMemPoolDestroy(std::exchange(pool, nullptr)));
  REQUIRE_OK(cuMemGetMemPool(&got, &host, pinned));
  BOOST_TEST(got == usual);
}

BOOST_AUTO_TEST_CASE(devices_have_access_to_it_when_they_get_it) {
  CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, {0}},
      device{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  auto access = [&](CUmemLocation by) {
    auto out = CU_MEM_ACCESS_FLAGS_PROT_READ;
    REQUIRE_OK(cuMemPoolGetAccess(&out, pool, &by));
    return out;
  };
  BOOST_TEST(access(host) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  BOOST_TEST(access(device) == CU_MEM_ACCESS_FLAGS_PROT_NONE);
  CUmemAccessDesc wanted{device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  REQUIRE_OK(cuMemPoolSetAccess(pool, &wanted, 1));
  BOOST_TEST(access(device) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  wanted = {host, CU_MEM_ACCESS_FLAGS_PROT_NONE};
  CHECK_CODE(cuMemPoolSetAccess(pool, &wanted, 1), CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_SUITE_END()
