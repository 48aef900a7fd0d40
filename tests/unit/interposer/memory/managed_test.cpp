// Managed memory: what is sent when host and device use it in turn.
#include "tests/unit/interposer/driver_fixture.hpp"

#include "schema/catalogue/calls.hpp"

#include <cstring>
#include <memory>
#include <numeric>
#include <span>

using namespace vgpu;
using namespace vgpu::test;

namespace {

constexpr std::size_t mega = std::size_t{1} << 20;

struct managed_fixture : driver_fixture {
  CUdeviceptr memory = 0;
  static constexpr std::size_t bytes = 64 * mega;
  managed_fixture() {
    REQUIRE_OK(cuMemAllocManaged(&memory, bytes, CU_MEM_ATTACH_GLOBAL));
  }
  ~managed_fixture() { cuMemFree(memory); }

  volatile int* host(std::size_t offset = 0) const {
    return reinterpret_cast<volatile int*>(memory + offset);
  }
  /// Moves a range to the device, as work does.
  void prefetch(std::size_t offset = 0, std::size_t count = bytes) const {
    REQUIRE_OK(cuMemPrefetchAsync(memory + offset, count,
                                  {CU_MEM_LOCATION_TYPE_DEVICE, {0}}, 0,
                                  nullptr));
  }
  /// Reads a value on the device without touching the host's pages.
  int on_device(std::size_t offset) const {
    int out = 0;
    REQUIRE_OK(cuMemcpyDtoH(&out, memory + offset, sizeof out));
    return out;
  }
  static int count_of(call::number x) {
    REQUIRE_OK(cuCtxSynchronize());
    return fake().counts()[static_cast<std::uint16_t>(x)];
  }
};

/// Counts the log's calls of a kind since its construction.
class counter {
public:
  explicit counter(call::number what)
      : what_(what), before_(managed_fixture::count_of(what)) {}
  int now() const { return managed_fixture::count_of(what_) - before_; }

private:
  call::number what_;
  int before_;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(managed, managed_fixture)

BOOST_AUTO_TEST_CASE(only_blocks_that_the_host_touched_are_sent) {
  counter writes{call::number::write_managed};
  counter reads{call::number::read_managed};
  *host(0) = 1;
  *host(32 * mega) = 2;
  prefetch();
  BOOST_TEST(writes.now() == 2);
  BOOST_TEST(on_device(0) == 1);
  BOOST_TEST(on_device(32 * mega) == 2);
  // The device has all of it. The host's next touch reads it back, once.
  BOOST_TEST(*host(0) == 1);
  BOOST_TEST(*host(8) == 0);
  BOOST_TEST(reads.now() == 1);
  // Blocks that were only read are not sent.
  prefetch();
  BOOST_TEST(writes.now() == 2);
}

BOOST_AUTO_TEST_CASE(a_page_that_is_read_and_then_written_is_sent) {
  *host(4096) = 5;
  prefetch();
  BOOST_TEST(*host(4096) == 5);
  *host(4096) = 6;
  prefetch();
  BOOST_TEST(on_device(4096) == 6);
}

BOOST_AUTO_TEST_CASE(sequential_reads_fetch_larger_ranges) {
  prefetch();
  counter reads{call::number::read_managed};
  for (std::size_t at = 0; at < 16 * mega; at += 4096)
    BOOST_TEST_REQUIRE(*host(at) == 0);
  // Single blocks would take 256 reads.
  BOOST_TEST(reads.now() < 20);
}

BOOST_AUTO_TEST_CASE(a_part_can_be_sent_alone) {
  *host(0) = 1;
  *host(bytes / 2) = 2;
  counter writes{call::number::write_managed};
  REQUIRE_OK(cuMemsetD32(memory + bytes / 2, 9, 1));
  BOOST_TEST(*host(bytes / 2) == 9);
  BOOST_TEST(*host(0) == 1);
  BOOST_TEST(writes.now() >= 1);
}

BOOST_AUTO_TEST_CASE(memory_allocated_again_has_no_old_contents) {
  *host(0) = 77;
  prefetch();
  CUdeviceptr other = 0;
  REQUIRE_OK(cuMemAllocManaged(&other, 10, CU_MEM_ATTACH_HOST));
  auto* x = reinterpret_cast<char*>(other);
  std::memset(x, 3, 10);
  REQUIRE_OK(cuMemFree(other));
  REQUIRE_OK(cuCtxSynchronize());
  CUdeviceptr again = 0;
  REQUIRE_OK(cuMemAllocManaged(&again, 10, CU_MEM_ATTACH_GLOBAL));
  BOOST_TEST(*reinterpret_cast<char*>(again) == 0);
  REQUIRE_OK(cuMemFree(again));
  BOOST_TEST(*host(0) == 77);
}

BOOST_AUTO_TEST_CASE(invalid_arguments_are_refused) {
  CUdeviceptr x = 0;
  CHECK_CODE(cuMemAllocManaged(nullptr, 16, CU_MEM_ATTACH_GLOBAL),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemAllocManaged(&x, 0, CU_MEM_ATTACH_GLOBAL),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemAllocManaged(&x, 16, CU_MEM_ATTACH_SINGLE),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemPrefetchAsync(memory, bytes + 1,
                                {CU_MEM_LOCATION_TYPE_DEVICE, {0}}, 0, nullptr),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemPrefetchAsync(memory, bytes,
                                {CU_MEM_LOCATION_TYPE_DEVICE, {7}}, 0, nullptr),
             CUDA_ERROR_INVALID_DEVICE);
  CHECK_CODE(cuStreamAttachMemAsync(nullptr, memory, 0, CU_MEM_ATTACH_SINGLE),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuStreamAttachMemAsync(nullptr, memory, 4, CU_MEM_ATTACH_HOST),
             CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(advice_is_told_again) {
  constexpr std::size_t half = bytes / 2;
  constexpr CUmemLocation first{CU_MEM_LOCATION_TYPE_DEVICE, {0}},
      host{CU_MEM_LOCATION_TYPE_HOST, {0}};
  auto told = [&](CUmem_range_attribute which, std::size_t count) {
    int out = 99;
    REQUIRE_OK(cuMemRangeGetAttribute(&out, sizeof out, which, memory, count));
    return out;
  };
  REQUIRE_OK(
      cuMemAdvise(memory, half, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, first));
  REQUIRE_OK(cuMemAdvise(memory, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, host));
  REQUIRE_OK(cuMemAdvise(memory, half, CU_MEM_ADVISE_SET_READ_MOSTLY, first));
  REQUIRE_OK(cuMemPrefetchAsync(memory, half, host, 0, nullptr));
  BOOST_TEST(told(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, half) == 0);
  BOOST_TEST(told(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, bytes) ==
             CU_DEVICE_INVALID);
  BOOST_TEST(told(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, half) ==
             int{CU_MEM_LOCATION_TYPE_DEVICE});
  BOOST_TEST(told(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, bytes) ==
             int{CU_MEM_LOCATION_TYPE_INVALID});
  BOOST_TEST(told(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID, half) == 0);
  BOOST_TEST(told(CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, bytes) == CU_DEVICE_CPU);
  BOOST_TEST(told(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, half) == 1);
  BOOST_TEST(told(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, bytes) == 0);
  BOOST_TEST(told(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, half) ==
             CU_DEVICE_CPU);
  BOOST_TEST(told(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE, half) ==
             int{CU_MEM_LOCATION_TYPE_HOST});
  REQUIRE_OK(
      cuMemAdvise(memory, half, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, first));
  BOOST_TEST(told(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, half) ==
             CU_DEVICE_INVALID);
  // Advice ends with its memory.
  REQUIRE_OK(cuMemFree(memory));
  REQUIRE_OK(cuCtxSynchronize());
  REQUIRE_OK(cuMemAllocManaged(&memory, bytes, CU_MEM_ATTACH_GLOBAL));
  BOOST_TEST(told(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, half) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
