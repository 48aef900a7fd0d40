// Handles of memory and events in the program that makes or opens them. The
// test plays the other process.
#include "tests/unit/interposer/driver_fixture.hpp"

#include "schema/base/shared_resource.hpp"

#include <xxhash.h>

#include <cstring>

using namespace vgpu;
using namespace vgpu::test;

namespace {

constexpr int unmap_number = 50, destroy_number = 48, import_number = 54;
constexpr int free_number = 2, count_number = 66;

std::size_t bytes_free() {
  std::size_t free = 0, total = 0;
  REQUIRE_OK(cuMemGetInfo(&free, &total));
  return free;
}

/// A handle as its words: kind, secret, number, serial, bytes, layout, check.
struct words {
  std::uint64_t at[8];

  template <class Handle>
  static words of(const Handle& x) {
    words out;
    std::memcpy(&out, &x, sizeof(out));
    return out;
  }
  template <class Handle>
  Handle as() const {
    Handle out;
    std::memcpy(&out, this, sizeof(out));
    return out;
  }
  /// Returns the handle as another process would have made it.
  words foreign() const {
    auto out = *this;
    ++out.at[1];
    return out.checked();
  }
  words checked() const {
    auto out = *this;
    out.at[7] = XXH3_64bits(&out, 7 * sizeof(std::uint64_t));
    return out;
  }
};

struct sharing_fixture : driver_fixture {
  static constexpr std::size_t bytes = (3 << 20) + 5;
  CUdeviceptr memory = 0;
  CUipcMemHandle own{};

  sharing_fixture() {
    REQUIRE_OK(cuMemAlloc(&memory, bytes));
    REQUIRE_OK(cuIpcGetMemHandle(&own, memory));
  }
  ~sharing_fixture() { cuMemFree(memory); }

  CUresult open(const words& x, CUdeviceptr& out) {
    return cuIpcOpenMemHandle(&out, x.as<CUipcMemHandle>(),
                              CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  }
  int count(int number) {
    REQUIRE_OK(cuCtxSynchronize());
    return fake().counts()[static_cast<std::uint16_t>(number)];
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(sharing_handles, sharing_fixture)

BOOST_AUTO_TEST_CASE(memory_has_one_handle) {
  CUipcMemHandle x{};
  // The handle is the same wherever the pointer points in the memory.
  REQUIRE_OK(cuIpcGetMemHandle(&x, memory));
  BOOST_TEST(std::memcmp(&x, &own, sizeof(x)) == 0);
  REQUIRE_OK(cuIpcGetMemHandle(&x, memory + 4711));
  BOOST_TEST(std::memcmp(&x, &own, sizeof(x)) == 0);
  CHECK_CODE(cuIpcGetMemHandle(nullptr, memory), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuIpcGetMemHandle(&x, 0), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuIpcGetMemHandle(&x, memory + 16 * granule_bytes),
             CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr other = 0;
  REQUIRE_OK(cuMemAllocManaged(&other, 4096, CU_MEM_ATTACH_GLOBAL));
  CHECK_CODE(cuIpcGetMemHandle(&x, other), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuMemFree(other));
  REQUIRE_OK(cuMemAllocAsync(&other, 4096, nullptr));
  CHECK_CODE(cuIpcGetMemHandle(&x, other), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuMemFreeAsync(other, nullptr));
  void* host = nullptr;
  REQUIRE_OK(cuMemAllocHost(&host, 4096));
  CHECK_CODE(cuIpcGetMemHandle(&x, reinterpret_cast<CUdeviceptr>(host)),
             CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuMemFreeHost(host));
  unsigned capable = 0;
  REQUIRE_OK(cuPointerGetAttribute(
      &capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, memory));
  BOOST_TEST(capable == 1U);
}

BOOST_AUTO_TEST_CASE(later_memory_has_another_handle) {
  REQUIRE_OK(cuMemFree(memory));
  REQUIRE_OK(cuCtxSynchronize());
  REQUIRE_OK(cuMemAlloc(&memory, bytes));
  CUipcMemHandle x{};
  REQUIRE_OK(cuIpcGetMemHandle(&x, memory));
  BOOST_TEST(std::memcmp(&x, &own, sizeof(x)) != 0);
}

BOOST_AUTO_TEST_CASE(a_program_that_shares_is_not_protected) {
  BOOST_TEST(!fake().is_protected());
}

BOOST_AUTO_TEST_CASE(a_programs_own_handle_is_refused) {
  CUdeviceptr at = 0;
  CHECK_CODE(open(words::of(own), at), CUDA_ERROR_INVALID_CONTEXT);
}

BOOST_AUTO_TEST_CASE(memory_of_another_process_can_be_used) {
  auto before = count(import_number);
  std::size_t free_before = 0, free_now = 0, total = 0;
  REQUIRE_OK(cuMemGetInfo(&free_before, &total));
  auto handle = words::of(own).foreign();
  CUdeviceptr at = 0, again = 0;
  REQUIRE_OK(open(handle, at));
  REQUIRE_OK(open(handle, again));
  BOOST_TEST(at == again);
  BOOST_TEST(count(import_number) == before + 1);
  REQUIRE_OK(cuMemGetInfo(&free_now, &total));
  BOOST_TEST(free_now == free_before);
  // It has the same offset in its granule as in the process that made it.
  BOOST_TEST(at % granule_bytes == memory % granule_bytes);
  CUdeviceptr begin = 0;
  std::size_t size = 0;
  REQUIRE_OK(cuMemGetAddressRange(&begin, &size, at + 99));
  BOOST_TEST(begin == at);
  BOOST_TEST(size == bytes);
  REQUIRE_OK(cuMemsetD8(at, 1, bytes));
  CHECK_CODE(cuMemsetD8(at + 1, 1, bytes), CUDA_ERROR_INVALID_VALUE);
  // This process can neither free nor lend it.
  CHECK_CODE(cuMemFree(at), CUDA_ERROR_INVALID_VALUE);
  CUipcMemHandle x{};
  CHECK_CODE(cuIpcGetMemHandle(&x, at), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuIpcCloseMemHandle(at + 1), CUDA_ERROR_INVALID_VALUE);
  auto unmapped = count(unmap_number), destroyed = count(destroy_number);
  REQUIRE_OK(cuIpcCloseMemHandle(at));
  REQUIRE_OK(cuMemsetD8(at, 1, bytes));
  BOOST_TEST(count(unmap_number) == unmapped);
  REQUIRE_OK(cuIpcCloseMemHandle(at));
  BOOST_TEST(count(unmap_number) == unmapped + 1);
  BOOST_TEST(count(destroy_number) == destroyed + 1);
  CHECK_CODE(cuIpcCloseMemHandle(at), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemsetD8(at, 1, bytes), CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(freed_memory_counts_while_another_process_has_it) {
  auto before = bytes_free();
  fake().count_for_others(bytes);
  REQUIRE_OK(cuMemFree(memory));
  BOOST_TEST(bytes_free() == before);
  CHECK_CODE(cuMemAlloc(&memory, before + 1), CUDA_ERROR_OUT_OF_MEMORY);
  // The library does not ask the worker where there is room anyway.
  auto asked = count(count_number);
  REQUIRE_OK(cuMemAlloc(&memory, before));
  BOOST_TEST(count(count_number) == asked);
  REQUIRE_OK(cuMemFree(memory));
  // The library learns of the other's close only by asking at an allocation.
  fake().count_for_others(0);
  REQUIRE_OK(cuMemAlloc(&memory, before + bytes));
  BOOST_TEST(bytes_free() == 0u);
  REQUIRE_OK(cuMemFree(memory));
  REQUIRE_OK(cuMemAlloc(&memory, bytes));
}

BOOST_AUTO_TEST_CASE(opened_memory_counts_after_its_lenders_end) {
  auto before = bytes_free();
  CUdeviceptr at = 0, more = 0;
  REQUIRE_OK(open(words::of(own).foreign(), at));
  BOOST_TEST(bytes_free() == before);
  fake().count_for_others(2 * granule_bytes);
  // It counts before another allocation gets its room.
  CHECK_CODE(cuMemAlloc(&more, before - granule_bytes),
             CUDA_ERROR_OUT_OF_MEMORY);
  BOOST_TEST(bytes_free() == before - 2 * granule_bytes);
  REQUIRE_OK(cuMemAlloc(&more, before - 2 * granule_bytes));
  REQUIRE_OK(cuMemFree(more));
  fake().count_for_others(0);
  REQUIRE_OK(cuIpcCloseMemHandle(at));
  BOOST_TEST(bytes_free() == before);
}

BOOST_AUTO_TEST_CASE(a_damaged_handle_is_refused_in_the_program) {
  auto before = count(import_number);
  auto good = words::of(own).foreign();
  CUdeviceptr at = 0;
  for (std::size_t i = 0; i < 8; ++i)
    for (auto bit : {0, 13, 63}) {
      auto bad = good;
      bad.at[i] ^= std::uint64_t{1} << bit;
      CHECK_CODE(open(bad, at), CUDA_ERROR_INVALID_VALUE);
    }
  // These handles are forged with a correct check.
  auto with = [&](std::size_t word, std::uint64_t value) {
    auto bad = good;
    bad.at[word] = value;
    CHECK_CODE(open(bad.checked(), at), CUDA_ERROR_INVALID_VALUE);
  };
  with(0, words::of(own).at[0] + 1);
  with(5, 0);
  with(5, ~std::uint64_t{0});
  with(5, share_layout::unpack(good.at[6]).granules * granule_bytes);
  with(6, 0);
  with(6, share_layout{3, 3, 0}.pack());
  with(6, share_layout{0, share_layout::most + 1, 0}.pack());
  CHECK_CODE(cuIpcOpenMemHandle(nullptr, good.as<CUipcMemHandle>(), 1),
             CUDA_ERROR_INVALID_VALUE);
  for (unsigned flags : {0U, 2U, 3U})
    CHECK_CODE(cuIpcOpenMemHandle(&at, good.as<CUipcMemHandle>(), flags),
               CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(count(import_number) == before);
}

BOOST_AUTO_TEST_CASE(a_contexts_end_closes_what_it_opened) {
  CUcontext context = nullptr;
  REQUIRE_OK(cuCtxCreate(&context, nullptr, 0, 0));
  CUdeviceptr at = 0;
  auto handle = words::of(own).foreign();
  ++handle.at[4];
  REQUIRE_OK(open(handle.checked(), at));
  auto unmapped = count(unmap_number), freed = count(free_number);
  REQUIRE_OK(cuCtxDestroy(context));
  BOOST_TEST(count(unmap_number) == unmapped + 1);
  BOOST_TEST(count(free_number) == freed);
  CHECK_CODE(cuIpcCloseMemHandle(at), CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(interprocess_events_have_handles) {
  CUevent x = nullptr;
  CHECK_CODE(cuEventCreate(&x, CU_EVENT_INTERPROCESS),
             CUDA_ERROR_INVALID_VALUE);
  CUipcEventHandle handle{};
  REQUIRE_OK(cuEventCreate(&x, CU_EVENT_DISABLE_TIMING));
  CHECK_CODE(cuIpcGetEventHandle(&handle, x), CUDA_ERROR_INVALID_HANDLE);
  REQUIRE_OK(cuEventDestroy(x));
  CHECK_CODE(cuIpcGetEventHandle(&handle, x), CUDA_ERROR_INVALID_HANDLE);
  REQUIRE_OK(
      cuEventCreate(&x, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
  CHECK_CODE(cuIpcGetEventHandle(nullptr, x), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuIpcGetEventHandle(&handle, x));
  CUevent opened = nullptr;
  CHECK_CODE(cuIpcOpenEventHandle(&opened, handle), CUDA_ERROR_INVALID_CONTEXT);
  auto foreign = words::of(handle).foreign();
  // A handle of memory is refused as an event's.
  CHECK_CODE(cuIpcOpenEventHandle(
                 &opened, words::of(own).foreign().as<CUipcEventHandle>()),
             CUDA_ERROR_MAP_FAILED);
  CHECK_CODE(cuIpcOpenEventHandle(&opened, CUipcEventHandle{}),
             CUDA_ERROR_MAP_FAILED);
  REQUIRE_OK(cuIpcOpenEventHandle(&opened, foreign.as<CUipcEventHandle>()));
  REQUIRE_OK(cuEventQuery(opened));
  REQUIRE_OK(cuEventRecord(opened, nullptr));
  REQUIRE_OK(cuStreamWaitEvent(nullptr, opened, 0));
  REQUIRE_OK(cuEventSynchronize(opened));
  float time = 0;
  CHECK_CODE(cuEventElapsedTime(&time, opened, opened),
             CUDA_ERROR_INVALID_HANDLE);
  REQUIRE_OK(cuEventDestroy(opened));
  REQUIRE_OK(cuEventDestroy(x));
}

BOOST_AUTO_TEST_SUITE_END()
