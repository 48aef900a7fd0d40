#include "tests/unit/interposer/driver_fixture.hpp"

#include <cstring>
#include <numeric>
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
  // This call reads the bytes only after the copy into them has arrived.
  REQUIRE_OK(
      cuMemcpyHtoDAsync(memory + 5'000'000, pinned, from.size(), nullptr));
  REQUIRE_OK(cuStreamSynchronize(nullptr));
  BOOST_TEST(std::memcmp(pinned, from.data(), from.size()) == 0);
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
