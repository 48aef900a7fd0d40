#include "tests/unit/interposer/driver_fixture.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

using namespace vgpu;
using namespace vgpu::test;

namespace {

constexpr int write_number = 11, read_number = 12;

std::vector<unsigned char> pattern(std::size_t bytes) {
  std::vector<unsigned char> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    out[i] = static_cast<unsigned char>(i * 31 + i / 251);
  return out;
}

struct copy_fixture : driver_fixture {
  CUdeviceptr memory = 0;
  static constexpr std::size_t bytes = 10'000'000;
  copy_fixture() { REQUIRE_OK(cuMemAlloc(&memory, bytes)); }
  ~copy_fixture() { cuMemFree(memory); }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(copies, copy_fixture)

BOOST_AUTO_TEST_CASE(large_copies_are_sent_in_parts) {
  auto before = fake().counts();
  auto from = pattern(bytes);
  REQUIRE_OK(cuMemcpyHtoD(memory, from.data(), bytes));
  std::vector<unsigned char> back(bytes);
  REQUIRE_OK(cuMemcpyDtoH(back.data(), memory, bytes));
  BOOST_TEST((back == from));
  BOOST_TEST(fake().counts()[write_number] - before[write_number] == 3);
  BOOST_TEST(fake().counts()[read_number] - before[read_number] == 3);
}

BOOST_AUTO_TEST_CASE(the_source_may_change_as_soon_as_the_call_returns) {
  fake().pause();
  auto from = pattern(1000);
  REQUIRE_OK(cuMemcpyHtoDAsync(memory, from.data(), 1000, nullptr));
  std::fill(from.begin(), from.end(), static_cast<unsigned char>(0));
  fake().resume();
  std::vector<unsigned char> back(1000);
  REQUIRE_OK(cuMemcpyDtoH(back.data(), memory, 1000));
  BOOST_TEST((back == pattern(1000)));
}

BOOST_AUTO_TEST_CASE(ranges_are_checked_in_the_program) {
  std::vector<unsigned char> host(100);
  CHECK_CODE(cuMemcpyHtoD(0, host.data(), 10), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemcpyHtoD(memory, nullptr, 10), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemcpyHtoD(memory + bytes - 5, host.data(), 10),
             CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuMemcpyHtoD(memory, host.data(), 0));
  CHECK_CODE(cuMemcpyDtoH(host.data(), 0x1234, 10), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemcpyDtoH(host.data(), memory + bytes - 5, 10),
             CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuMemcpyDtoD(memory, memory + 4, 100));
  CHECK_CODE(cuMemsetD8(memory + bytes - 1, 0, 2), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemsetD32(memory + 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
  // A device address is given in place of a host address.
  CHECK_CODE(cuMemcpyDtoH(reinterpret_cast<void*>(memory), memory, 10),
             CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(copies_between_unified_pointers_find_their_kind) {
  auto from = pattern(100);
  std::vector<unsigned char> back(100);
  auto address = [](void* p) { return reinterpret_cast<CUdeviceptr>(p); };
  REQUIRE_OK(cuMemcpy(address(back.data()), address(from.data()), 100));
  BOOST_TEST((back == from));
  std::fill(back.begin(), back.end(), static_cast<unsigned char>(0));
  REQUIRE_OK(cuMemcpy(memory, address(from.data()), 100));
  REQUIRE_OK(cuMemcpy(memory + 1000, memory, 100));
  REQUIRE_OK(cuMemcpy(address(back.data()), memory + 1000, 100));
  BOOST_TEST((back == from));
}

BOOST_AUTO_TEST_CASE(fills_write_elements_and_rows) {
  std::vector<std::uint32_t> back(256);
  REQUIRE_OK(cuMemsetD32(memory, 0xdeadbeef, 256));
  REQUIRE_OK(cuMemsetD16(memory, 0x1234, 2));
  REQUIRE_OK(cuMemsetD8(memory + 4, 0xff, 1));
  REQUIRE_OK(cuMemcpyDtoH(back.data(), memory, 1024));
  BOOST_TEST(back[0] == 0x12341234U);
  BOOST_TEST(back[1] == 0xdeadbeffU);
  BOOST_TEST(back[255] == 0xdeadbeefU);
  // Fills four rows of two elements, 16 bytes apart.
  REQUIRE_OK(cuMemsetD2D32(memory, 16, 7, 2, 4));
  REQUIRE_OK(cuMemcpyDtoH(back.data(), memory, 1024));
  BOOST_TEST(back[12] == 7U);
  BOOST_TEST(back[13] == 7U);
  BOOST_TEST(back[14] == 0xdeadbeefU);
  CHECK_CODE(cuMemsetD2D32(memory, 4, 7, 2, 4), CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(boxes_keep_their_pitch) {
  auto from = pattern(64 * 20);
  CUDA_MEMCPY2D in{};
  in.srcMemoryType = CU_MEMORYTYPE_HOST;
  in.srcHost = from.data();
  in.srcPitch = 64;
  in.srcXInBytes = 8;
  in.srcY = 2;
  in.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  in.dstDevice = memory;
  in.dstPitch = 512;
  in.WidthInBytes = 40;
  in.Height = 10;
  REQUIRE_OK(cuMemcpy2D(&in));
  std::vector<unsigned char> back(40 * 10);
  CUDA_MEMCPY2D out{};
  out.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  out.srcDevice = memory;
  out.srcPitch = 512;
  out.dstMemoryType = CU_MEMORYTYPE_HOST;
  out.dstHost = back.data();
  out.dstPitch = 40;
  out.WidthInBytes = 40;
  out.Height = 10;
  REQUIRE_OK(cuMemcpy2DAsync(&out, nullptr));
  for (std::size_t y = 0; y < 10; ++y)
    BOOST_TEST(std::memcmp(&back[y * 40], &from[(y + 2) * 64 + 8], 40) == 0);
  in.dstPitch = 10;
  CHECK_CODE(cuMemcpy2D(&in), CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(boxes_have_depth) {
  auto from = pattern(4 * 3 * 5);
  CUDA_MEMCPY3D in{};
  in.srcMemoryType = CU_MEMORYTYPE_HOST;
  in.srcHost = from.data();
  in.srcPitch = 4;
  in.srcHeight = 3;
  in.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  in.dstDevice = memory;
  in.dstPitch = 16;
  in.dstHeight = 8;
  in.WidthInBytes = 4;
  in.Height = 3;
  in.Depth = 5;
  REQUIRE_OK(cuMemcpy3D(&in));
  std::vector<unsigned char> back(16 * 8 * 5);
  REQUIRE_OK(cuMemcpyDtoH(back.data(), memory, back.size()));
  for (std::size_t z = 0; z < 5; ++z)
    for (std::size_t y = 0; y < 3; ++y)
      BOOST_TEST(
          std::memcmp(&back[(z * 8 + y) * 16], &from[(z * 3 + y) * 4], 4) == 0);
  in.srcMemoryType = CU_MEMORYTYPE_ARRAY; // without an array
  CHECK_CODE(cuMemcpy3D(&in), CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(pinned_memory_is_written_while_the_program_runs) {
  void* pinned = nullptr;
  REQUIRE_OK(cuMemHostAlloc(&pinned, 5'000'000, 0));
  auto from = pattern(5'000'000);
  std::memcpy(pinned, from.data(), from.size());
  REQUIRE_OK(cuMemcpyHtoDAsync(memory, pinned, from.size(), nullptr));
  std::memset(pinned, 0, from.size());
  fake().pause();
  REQUIRE_OK(cuMemcpyDtoHAsync(pinned, memory, from.size(), nullptr));
  BOOST_TEST(static_cast<unsigned char*>(pinned)[1] == 0);
  fake().resume();
  // This copy reads the bytes only after the copy into them has arrived.
  REQUIRE_OK(
      cuMemcpyHtoDAsync(memory + 5'000'000, pinned, from.size(), nullptr));
  REQUIRE_OK(cuStreamSynchronize(nullptr));
  BOOST_TEST(std::memcmp(pinned, from.data(), from.size()) == 0);
  // The fake client's streams do not wait for the program. Freeing does.
  CUdeviceptr other = 0;
  REQUIRE_OK(cuMemAlloc(&other, 16));
  REQUIRE_OK(cuMemFree(other));
  std::vector<unsigned char> back(from.size());
  REQUIRE_OK(cuMemcpyDtoH(back.data(), memory + 5'000'000, from.size()));
  BOOST_TEST((back == from));
  REQUIRE_OK(cuMemFreeHost(pinned));
}

BOOST_AUTO_TEST_CASE(a_read_may_be_larger_than_the_arena) {
  CUdeviceptr big = 0;
  std::size_t size = std::size_t{100} << 20;
  REQUIRE_OK(cuMemAlloc(&big, size));
  REQUIRE_OK(cuMemsetD32(big, 0x01020304, size / 4));
  std::vector<std::uint32_t> back(size / 4);
  REQUIRE_OK(cuMemcpyDtoH(back.data(), big, size));
  BOOST_TEST((back == std::vector<std::uint32_t>(size / 4, 0x01020304)));
  // This is more than the log holds, which is trimmed while it is executed.
  REQUIRE_OK(cuMemcpyHtoD(big, back.data(), size));
  REQUIRE_OK(cuMemFree(big));
}

BOOST_AUTO_TEST_SUITE_END()

namespace {

/// A host function that the program lets go on. All streams wait for it. The
/// function may read its flag after the program's object has ended.
class held_stream {
public:
  held_stream() {
    auto own = std::make_unique<shared_flag>(go_);
    REQUIRE_OK(cuLaunchHostFunc(nullptr, wait, own.release()));
  }
  ~held_stream() { let_go(); }
  void let_go() {
    *go_ = true;
    go_->notify_all();
  }

private:
  using shared_flag = std::shared_ptr<std::atomic<bool>>;

  static void CUDA_CB wait(void* own) {
    std::unique_ptr<shared_flag> go{static_cast<shared_flag*>(own)};
    (*go)->wait(false);
  }

  shared_flag go_ = std::make_shared<std::atomic<bool>>(false);
};

/// Page-locked memory of both kinds.
struct locked_fixture : copy_fixture {
  static constexpr std::size_t size = 100'000;
  std::vector<unsigned char> plain = pattern(size);
  unsigned char* pinned = nullptr;
  locked_fixture() {
    void* made = nullptr;
    REQUIRE_OK(cuMemAllocHost(&made, size));
    pinned = static_cast<unsigned char*>(made);
    REQUIRE_OK(cuMemHostRegister(plain.data(), size, 0));
  }
  ~locked_fixture() {
    cuMemFreeHost(pinned);
    cuMemHostUnregister(plain.data());
  }
  /// Waits for copies that are under way, as freeing memory does.
  static void finish() {
    CUdeviceptr other = 0;
    REQUIRE_OK(cuMemAlloc(&other, 16));
    REQUIRE_OK(cuMemFree(other));
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(page_locked_copies, locked_fixture)

BOOST_AUTO_TEST_CASE(a_copy_behind_a_host_function_returns_and_reads_later) {
  for (auto* from : {pinned, plain.data()}) {
    std::fill(from, from + size, static_cast<unsigned char>(1));
    {
      held_stream held;
      REQUIRE_OK(cuMemcpyHtoDAsync(memory, from, size, nullptr));
      std::fill(from, from + size, static_cast<unsigned char>(2));
    }
    finish();
    std::vector<unsigned char> back(size);
    REQUIRE_OK(cuMemcpyDtoH(back.data(), memory, size));
    BOOST_TEST((back == std::vector<unsigned char>(size, 2)));
  }
}

BOOST_AUTO_TEST_CASE(a_copy_to_registered_memory_returns_and_writes_later) {
  REQUIRE_OK(cuMemsetD8(memory, 7, size));
  std::fill(plain.begin(), plain.end(), static_cast<unsigned char>(1));
  {
    held_stream held;
    REQUIRE_OK(cuMemcpyDtoHAsync(plain.data(), memory, size, nullptr));
    BOOST_TEST(plain[0] == 1);
  }
  finish();
  BOOST_TEST((plain == std::vector<unsigned char>(size, 7)));
}

/// Nothing but the bytes, and the end of what a stream waits for, is appended
/// after the call: a GPU may have no channel for another stream.
BOOST_AUTO_TEST_CASE(a_late_copy_stands_in_its_stream_when_the_call_returns) {
  auto number_of = [](auto counts, call::number x) {
    return counts[static_cast<std::uint16_t>(x)];
  };
  REQUIRE_OK(cuCtxSynchronize());
  auto before = fake().counts();
  {
    held_stream held;
    REQUIRE_OK(cuMemcpyHtoDAsync(memory, pinned, size, nullptr));
    REQUIRE_OK(cuMemcpyDtoHAsync(plain.data(), memory, size, nullptr));
    held.let_go();
    finish();
    REQUIRE_OK(cuCtxSynchronize());
    auto after = fake().counts();
    for (auto [x, more] : {std::pair{call::number::late_write, 1},
                           std::pair{call::number::late_bytes, 1},
                           std::pair{call::number::read, 1},
                           std::pair{call::number::event_record, 0},
                           std::pair{call::number::host_ended, 0}})
      BOOST_TEST(number_of(after, x) - number_of(before, x) == more);
  }
}

BOOST_AUTO_TEST_CASE(a_batch_reads_when_its_attributes_say) {
  CUstream stream = nullptr;
  REQUIRE_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  std::vector<unsigned char> to(2, 0), from(2, 1);
  CUdeviceptr targets[2], sources[2];
  for (std::size_t i = 0; i < 2; ++i) {
    targets[i] = reinterpret_cast<CUdeviceptr>(&to[i]);
    sources[i] = reinterpret_cast<CUdeviceptr>(&from[i]);
  }
  std::size_t sizes[]{1, 1}, first[]{0, 1};
  CUmemcpyAttributes how[2]{};
  how[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  how[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  {
    held_stream held;
    REQUIRE_OK(
        cuMemcpyBatchAsync(targets, sources, sizes, 2, how, first, 2, stream));
    BOOST_TEST(to[0] == 0);
    BOOST_TEST(to[1] == 1);
    from[0] = from[1] = 2;
  }
  finish();
  BOOST_TEST(to[0] == 2);
  BOOST_TEST(to[1] == 1);
  REQUIRE_OK(cuStreamDestroy(stream));
}

BOOST_AUTO_TEST_CASE(unregistering_waits_for_copies) {
  std::vector<unsigned char> other(size, 1);
  REQUIRE_OK(cuMemHostRegister(other.data(), size, 0));
  {
    held_stream held;
    REQUIRE_OK(cuMemcpyHtoDAsync(memory, other.data(), size, nullptr));
  }
  REQUIRE_OK(cuMemHostUnregister(other.data()));
  std::fill(other.begin(), other.end(), static_cast<unsigned char>(3));
  std::vector<unsigned char> back(size);
  REQUIRE_OK(cuMemcpyDtoH(back.data(), memory, size));
  BOOST_TEST((back == std::vector<unsigned char>(size, 1)));
}

BOOST_AUTO_TEST_CASE(copies_that_wait_wait_only_for_work) {
  auto waits = [] {
    auto all = fake().counts();
    return all[static_cast<std::uint16_t>(call::number::stream_sync)] +
           all[static_cast<std::uint16_t>(call::number::device_sync)];
  };
  std::vector<unsigned char> from(100);
  REQUIRE_OK(cuCtxSynchronize());
  auto before = waits();
  REQUIRE_OK(cuMemcpyHtoD(memory, from.data(), 100));
  REQUIRE_OK(cuMemcpyHtoD(memory, pinned, 100));
  BOOST_TEST(waits() == before);
  REQUIRE_OK(cuMemsetD8(memory, 0, 100));
  REQUIRE_OK(cuMemcpyHtoD(memory, from.data(), 100));
  BOOST_TEST(waits() == before + 1);
}

BOOST_AUTO_TEST_CASE(a_fill_of_pinned_memory_is_done_when_it_returns) {
  REQUIRE_OK(cuMemsetD8(reinterpret_cast<CUdeviceptr>(pinned), 9, size));
  BOOST_TEST(pinned[0] == 9);
  BOOST_TEST(pinned[size - 1] == 9);
}

BOOST_AUTO_TEST_CASE(freeing_nothing_succeeds) {
  // The runtime makes a null pointer for page-locked memory of no bytes, and
  // passes it on when the program frees it.
  CHECK_CODE(cuMemFreeHost(nullptr), CUDA_SUCCESS);
  CHECK_CODE(cuMemFree(0), CUDA_SUCCESS);
  CHECK_CODE(cuMemHostUnregister(nullptr), CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_SUITE_END()
