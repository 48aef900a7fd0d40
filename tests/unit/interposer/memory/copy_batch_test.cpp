// Several copies in one call, against the fake client.
#include "tests/unit/interposer/driver_fixture.hpp"

#include <array>
#include <cstring>
#include <numeric>
#include <vector>

using namespace vgpu;
using namespace vgpu::test;

extern "C" {
// These have the form of CUDA 12.8, which also returns the index of the wrong
// copy.
CUresult batch_v1(CUdeviceptr* to, CUdeviceptr* from, size_t* sizes,
                  size_t count, CUmemcpyAttributes* attributes, size_t* first,
                  size_t groups, size_t* failed,
                  CUstream in) __asm__("cuMemcpyBatchAsync");
CUresult boxes_v1(size_t count, CUDA_MEMCPY3D_BATCH_OP* what, size_t* failed,
                  unsigned long long flags,
                  CUstream in) __asm__("cuMemcpy3DBatchAsync");
}

namespace {

constexpr std::size_t piece = 1024;
constexpr std::size_t untouched = 777;
constexpr std::size_t none_failed = SIZE_MAX;

struct batch_fixture : driver_fixture {
  CUdeviceptr memory = 0;
  CUstream stream = nullptr;
  std::array<CUdeviceptr, 4> to{}, from{};
  std::array<std::size_t, 4> sizes{}, first{0, 1, 2, 3};
  std::array<CUmemcpyAttributes, 4> attributes{};
  std::size_t count = 4, groups = 1, failed = untouched;

  batch_fixture() {
    REQUIRE_OK(cuMemAlloc(&memory, 8 * piece));
    REQUIRE_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (std::size_t i = 0; i < 4; ++i) {
      to[i] = memory + i * piece;
      from[i] = memory + (4 + i) * piece;
      sizes[i] = piece;
      attributes[i].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
      REQUIRE_OK(cuMemsetD8(to[i], 0, piece));
      REQUIRE_OK(cuMemsetD8(from[i], static_cast<unsigned char>(i + 1), piece));
    }
  }
  ~batch_fixture() {
    cuStreamDestroy(stream);
    cuMemFree(memory);
  }

  CUresult go() {
    return batch_v1(to.data(), from.data(), sizes.data(), count,
                    attributes.data(), first.data(), groups, &failed, stream);
  }

  /// Returns the first byte of each target.
  std::vector<int> copied() {
    std::vector<unsigned char> all(4 * piece);
    REQUIRE_OK(cuMemcpyDtoHAsync(all.data(), memory, all.size(), stream));
    return {all[0], all[piece], all[2 * piece], all[3 * piece]};
  }

  int sent() {
    auto counts = fake().counts();
    return counts[static_cast<std::uint16_t>(call::number::copy)] +
           counts[static_cast<std::uint16_t>(call::number::write)];
  }
};

const std::vector<int> none{0, 0, 0, 0};
const std::vector<int> all{1, 2, 3, 4};

} // namespace

BOOST_FIXTURE_TEST_SUITE(copy_batches, batch_fixture)

BOOST_AUTO_TEST_CASE(all_copies_of_a_batch_are_made) {
  REQUIRE_OK(go());
  BOOST_TEST(failed == none_failed);
  BOOST_TEST(copied() == all);
  groups = 4;
  REQUIRE_OK(go());
  REQUIRE_OK(cuMemcpyBatchAsync(to.data(), from.data(), sizes.data(), 4,
                                attributes.data(), first.data(), 1, stream));
}

BOOST_AUTO_TEST_CASE(a_batch_with_a_wrong_copy_does_nothing) {
  auto before = sent();
  sizes[3] = std::uint64_t{1} << 41;
  CHECK_CODE(go(), CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(failed == 3U);
  sizes[3] = 0;
  CHECK_CODE(go(), CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(failed == 3U);
  sizes[3] = piece;
  from[2] = 0;
  CHECK_CODE(go(), CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(failed == 2U);
  BOOST_TEST(sent() == before);
  BOOST_TEST(copied() == none);
}

BOOST_AUTO_TEST_CASE(attributes_must_cover_all_copies) {
  auto wrong = [&] {
    failed = untouched;
    CHECK_CODE(go(), CUDA_ERROR_INVALID_VALUE);
    BOOST_TEST(failed == none_failed);
  };
  for (std::size_t n : {0U, 5U}) {
    groups = n;
    wrong();
  }
  groups = 2;
  first = {0, 0};
  wrong();
  first = {1, 2};
  wrong();
  first = {0, 4};
  wrong();
  first = {0, 3};
  attributes[1].srcAccessOrder = unknown_value<CUmemcpySrcAccessOrder>(4);
  wrong();
  attributes[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
  attributes[1].dstLocHint.type = CU_MEM_LOCATION_TYPE_DEVICE;
  attributes[1].dstLocHint.id = 99;
  wrong();
  attributes[1].dstLocHint.id = 1;
  REQUIRE_OK(go());
  BOOST_TEST(copied() == all);
}

BOOST_AUTO_TEST_CASE(the_legacy_stream_refuses_batches) {
  auto mine = stream;
  stream = nullptr;
  CHECK_CODE(go(), CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(failed == untouched);
  stream = CU_STREAM_LEGACY;
  CHECK_CODE(go(), CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(failed == none_failed);
  stream = CU_STREAM_PER_THREAD;
  REQUIRE_OK(go());
  REQUIRE_OK(cuStreamSynchronize(stream));
  stream = mine;
  BOOST_TEST(copied() == all);
}

BOOST_AUTO_TEST_CASE(a_capture_survives_a_refused_batch) {
  REQUIRE_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK_CODE(go(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUgraph graph = nullptr;
  REQUIRE_OK(cuStreamEndCapture(stream, &graph));
  REQUIRE_OK(cuGraphDestroy(graph));
}

BOOST_AUTO_TEST_CASE(a_batch_may_copy_to_and_from_host_memory) {
  std::vector<unsigned char> there(piece, 9), back(piece);
  from[0] = reinterpret_cast<CUdeviceptr>(there.data());
  to[3] = reinterpret_cast<CUdeviceptr>(back.data());
  REQUIRE_OK(go());
  REQUIRE_OK(cuStreamSynchronize(stream));
  // The fake client does not order streams. Freeing memory waits for copies
  // that the library makes.
  CUdeviceptr other = 0;
  REQUIRE_OK(cuMemAlloc(&other, 16));
  REQUIRE_OK(cuMemFree(other));
  BOOST_TEST(copied() == (std::vector<int>{9, 2, 3, 0}));
  BOOST_TEST(back == std::vector<unsigned char>(piece, 4));
}

BOOST_AUTO_TEST_CASE(boxes_of_a_batch_count_elements) {
  CUDA_MEMCPY3D_BATCH_OP x{};
  x.src.type = x.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  x.src.op.ptr.ptr = from[1];
  x.dst.op.ptr.ptr = to[0];
  x.dst.op.ptr.rowLength = 32;
  x.extent = {16, 4, 2};
  x.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  REQUIRE_OK(boxes_v1(1, &x, &failed, 0, stream));
  std::array<unsigned char, 256> got{};
  REQUIRE_OK(cuMemcpyDtoHAsync(got.data(), to[0], got.size(), stream));
  for (std::size_t i = 0; i < got.size(); ++i)
    BOOST_TEST_REQUIRE(got[i] == (i % 32 < 16 ? 2 : 0));
  std::array both{x, x};
  both[1].dst.op.ptr.rowLength = 15;
  CHECK_CODE(boxes_v1(2, both.data(), &failed, 0, stream),
             CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(failed == 1U);
  CHECK_CODE(boxes_v1(1, &x, &failed, 1, stream), CUDA_ERROR_INVALID_VALUE);
  x.extent.depth = 0;
  CHECK_CODE(cuMemcpy3DBatchAsync(1, &x, 0, stream), CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(boxes_of_arrays_count_elements) {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = 16;
  shape.Height = 4;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
  CUarray array = nullptr;
  REQUIRE_OK(cuArray3DCreate(&array, &shape));
  std::array<float, 8> there{}, back{};
  std::iota(there.begin(), there.end(), 1.0F);
  CUDA_MEMCPY3D_BATCH_OP in{};
  in.src.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  in.src.op.ptr.ptr = reinterpret_cast<CUdeviceptr>(there.data());
  in.dst.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
  in.dst.op.array.array = array;
  in.dst.op.array.offset = {8, 2, 0};
  in.extent = {4, 2, 1};
  in.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  auto out = in;
  out.src = in.dst;
  out.dst = in.src;
  out.dst.op.ptr.ptr = reinterpret_cast<CUdeviceptr>(back.data());
  REQUIRE_OK(cuMemcpy3DBatchAsync(1, &in, 0, stream));
  REQUIRE_OK(cuMemcpy3DBatchAsync(1, &out, 0, stream));
  REQUIRE_OK(cuStreamSynchronize(stream));
  BOOST_TEST(back == there);
  in.dst.op.array.offset.x = 13;
  CHECK_CODE(cuMemcpy3DBatchAsync(1, &in, 0, stream), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuArrayDestroy(array));
}

BOOST_AUTO_TEST_CASE(ranges_of_managed_memory_are_checked_first) {
  CUdeviceptr managed = 0;
  REQUIRE_OK(cuMemAllocManaged(&managed, 4 * piece, CU_MEM_ATTACH_GLOBAL));
  std::array<CUdeviceptr, 2> at{managed, managed + piece};
  std::array<std::size_t, 2> bytes{piece, piece}, starts{0, 1};
  std::array<CUmemLocation, 2> places{};
  places[0].type = places[1].type = CU_MEM_LOCATION_TYPE_DEVICE;
  auto bring = [&](CUstream in) {
    return cuMemPrefetchBatchAsync(at.data(), bytes.data(), 2, places.data(),
                                   starts.data(), 2, 0, in);
  };
  REQUIRE_OK(bring(stream));
  REQUIRE_OK(cuMemDiscardBatchAsync(at.data(), bytes.data(), 2, 0, stream));
  REQUIRE_OK(cuMemDiscardAndPrefetchBatchAsync(
      at.data(), bytes.data(), 2, places.data(), starts.data(), 2, 0, stream));
  int last = -9;
  REQUIRE_OK(cuMemRangeGetAttribute(
      &last, sizeof last, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION,
      managed, 2 * piece));
  BOOST_TEST(last == 0);
  CHECK_CODE(bring(nullptr), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemDiscardBatchAsync(at.data(), bytes.data(), 2, 1, stream),
             CUDA_ERROR_INVALID_VALUE);
  at[1] = memory;
  CHECK_CODE(bring(stream), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemDiscardBatchAsync(at.data(), bytes.data(), 2, 0, stream),
             CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuMemFree(managed));
}

BOOST_AUTO_TEST_SUITE_END()
