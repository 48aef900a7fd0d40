// Tensor maps: the results of making them, and kernels that copy by them if the
// device can.
// nvcc: -lcuda
#include "../check.hpp"

#include <cstdint>
#include <cstring>
#include <vector>

// The size of a matrix of floats, and of the part that a block copies.
const uint64_t columns = 256, lines = 64;
const uint32_t tile_columns = 32, tile_lines = 8;

/// Holds the arguments of a map. The defaults are valid.
struct arguments {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  uint32_t rank = 2;
  uint64_t address = 0;
  cuuint64_t sizes[5] = {columns, lines, 1, 1, 1};
  cuuint64_t strides[4] = {columns * 4, columns* lines * 4, columns* lines * 4,
                           columns* lines * 4};
  cuuint32_t box[5] = {tile_columns, tile_lines, 1, 1, 1};
  cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_NONE;
  CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  int lower[3] = {0, 0, 0}, upper[3] = {0, 0, 0};
  uint32_t channels = 32, pixels = 8;
};

static CUresult tiled(CUtensorMap* out, const arguments& a) {
  return cuTensorMapEncodeTiled(
      out, a.type, a.rank, reinterpret_cast<void*>(a.address), a.sizes,
      a.strides, a.box, a.steps, a.interleave, a.swizzle, a.promotion, a.fill);
}

static CUresult im2col(CUtensorMap* out, const arguments& a) {
  return cuTensorMapEncodeIm2col(
      out, a.type, a.rank, reinterpret_cast<void*>(a.address), a.sizes,
      a.strides, a.lower, a.upper, a.channels, a.pixels, a.steps, a.interleave,
      a.swizzle, a.promotion, a.fill);
}

static CUresult wide(CUtensorMap* out, const arguments& a) {
  return cuTensorMapEncodeIm2colWide(
      out, a.type, a.rank, reinterpret_cast<void*>(a.address), a.sizes,
      a.strides, a.lower[0], a.upper[0], a.channels, a.pixels, a.steps,
      a.interleave, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W, a.swizzle, a.promotion,
      a.fill);
}

static bool has_maps = false;

/// Expects the result of a real driver (580) on an H200, or on a device without
/// maps.
static void expect(CUresult got, CUresult code, const char* what) {
  printf("  %s: %s\n", what, error_name(got));
  EXPECT(got == (has_maps ? code : CUDA_ERROR_NOT_SUPPORTED));
}

/// Makes one call with arguments that `change` modifies, and checks its result.
template <class Make, class Change>
void answer(CUresult code, const char* what, Make make, arguments a,
            Change change) {
  change(a);
  CUtensorMap map;
  expect(make(&map, a), code, what);
}

#define TILED(code, ...)                                                       \
  answer(code, #__VA_ARGS__, tiled, right, [](arguments& a) { __VA_ARGS__; })
#define IM2COL(code, ...)                                                      \
  answer(code, #__VA_ARGS__, im2col, image, [](arguments& a) { __VA_ARGS__; })
#define WIDE(code, ...)                                                        \
  answer(code, #__VA_ARGS__, wide, image, [](arguments& a) { __VA_ARGS__; })

static void answers_to_tiles(const arguments& right) {
  printf("tiled\n");
  answer(CUDA_SUCCESS, "as it is", tiled, right, [](arguments&) {});
  TILED(CUDA_SUCCESS, a.address = 0);
  TILED(CUDA_ERROR_INVALID_VALUE, a.address += 8);
  TILED(CUDA_SUCCESS, a.address += 16);
  TILED(CUDA_ERROR_INVALID_VALUE, a.rank = 0);
  TILED(CUDA_SUCCESS, a.rank = 1);
  TILED(CUDA_SUCCESS, a.rank = 5);
  TILED(CUDA_ERROR_INVALID_VALUE, a.rank = 6);
  TILED(CUDA_SUCCESS, a.type = CU_TENSOR_MAP_DATA_TYPE_UINT8);
  TILED(CUDA_ERROR_INVALID_VALUE,
        a.type = static_cast<CUtensorMapDataType>(77));
  TILED(CUDA_ERROR_INVALID_VALUE, a.sizes[1] = 0);
  TILED(CUDA_SUCCESS, a.sizes[1] = uint64_t{1} << 32);
  TILED(CUDA_ERROR_INVALID_VALUE, a.sizes[1] = (uint64_t{1} << 32) + 1);
  TILED(CUDA_SUCCESS, a.sizes[2] = 0);
  TILED(CUDA_ERROR_INVALID_VALUE, a.strides[0] = 1032);
  TILED(CUDA_SUCCESS, a.strides[0] = (uint64_t{1} << 40) - 16);
  TILED(CUDA_ERROR_INVALID_VALUE, a.strides[0] = uint64_t{1} << 40);
  TILED(CUDA_ERROR_INVALID_VALUE, a.box[0] = 0);
  TILED(CUDA_ERROR_INVALID_VALUE, a.box[0] = 3);
  TILED(CUDA_SUCCESS, a.box[1] = 256);
  TILED(CUDA_ERROR_INVALID_VALUE, a.box[1] = 257);
  TILED(CUDA_ERROR_INVALID_VALUE, a.steps[1] = 0);
  TILED(CUDA_SUCCESS, a.steps[1] = 8);
  TILED(CUDA_ERROR_INVALID_VALUE, a.steps[1] = 9);
  TILED(CUDA_ERROR_INVALID_VALUE, a.interleave = CU_TENSOR_MAP_INTERLEAVE_16B);
  TILED(CUDA_SUCCESS, a.interleave = CU_TENSOR_MAP_INTERLEAVE_16B; a.rank = 3);
  TILED(CUDA_SUCCESS, a.interleave = CU_TENSOR_MAP_INTERLEAVE_32B; a.rank = 3);
  TILED(CUDA_ERROR_INVALID_VALUE,
        a.interleave = static_cast<CUtensorMapInterleave>(3));
  TILED(CUDA_SUCCESS, a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B);
  TILED(CUDA_ERROR_INVALID_VALUE, a.swizzle = CU_TENSOR_MAP_SWIZZLE_64B);
  TILED(CUDA_ERROR_INVALID_VALUE,
        a.swizzle = static_cast<CUtensorMapSwizzle>(7));
  TILED(CUDA_SUCCESS, a.promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
  TILED(CUDA_ERROR_INVALID_VALUE,
        a.promotion = static_cast<CUtensorMapL2promotion>(4));
  TILED(CUDA_SUCCESS,
        a.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
  TILED(CUDA_ERROR_INVALID_VALUE,
        a.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
        a.type = CU_TENSOR_MAP_DATA_TYPE_INT32);
  TILED(CUDA_ERROR_INVALID_VALUE,
        a.fill = static_cast<CUtensorMapFloatOOBfill>(2));
}

static void answers_to_columns(arguments image) {
  image.rank = 4;
  printf("im2col\n");
  answer(CUDA_SUCCESS, "as it is", im2col, image, [](arguments&) {});
  IM2COL(CUDA_ERROR_INVALID_VALUE, a.rank = 2);
  IM2COL(CUDA_SUCCESS, a.rank = 3);
  IM2COL(CUDA_SUCCESS, a.rank = 5);
  IM2COL(CUDA_SUCCESS, a.lower[0] = -128);
  IM2COL(CUDA_ERROR_INVALID_VALUE, a.lower[0] = -129);
  IM2COL(CUDA_SUCCESS, a.upper[1] = 127);
  IM2COL(CUDA_ERROR_INVALID_VALUE, a.upper[1] = 128);
  IM2COL(CUDA_SUCCESS, a.channels = 256);
  IM2COL(CUDA_ERROR_INVALID_VALUE, a.channels = 257);
  IM2COL(CUDA_SUCCESS, a.pixels = 1024);
  IM2COL(CUDA_ERROR_INVALID_VALUE, a.pixels = 1025);
  printf("im2col wide\n");
  answer(CUDA_SUCCESS, "as it is", wide, image, [](arguments&) {});
  WIDE(CUDA_SUCCESS, a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B);
  WIDE(CUDA_ERROR_INVALID_VALUE, a.rank = 2);
}

static void answers_to_places(const arguments& a) {
  printf("places\n");
  alignas(64) unsigned char room[256];
  auto at = [&](int offset) {
    return reinterpret_cast<CUtensorMap*>(room + offset);
  };
  auto* there = reinterpret_cast<void*>(a.address + 64);
  auto bad = CUDA_ERROR_INVALID_VALUE;
  expect(tiled(nullptr, a), bad, "no map");
  // The driver accepts this, although the documentation requires more
  // alignment.
  expect(tiled(at(16), a), CUDA_SUCCESS, "a map at 16");
  expect(tiled(at(32), a), CUDA_SUCCESS, "a map at 32");
  expect(tiled(at(64), a), CUDA_SUCCESS, "a map at 64");
  auto* odd = reinterpret_cast<void*>(a.address + 8);
  auto replace = [&](void* by) {
    return cuTensorMapReplaceAddress(at(64), by);
  };
  expect(replace(there), CUDA_SUCCESS, "replace");
  expect(replace(odd), bad, "replace by one at 8");
  expect(replace(nullptr), bad, "replace by none");
  CUcontext current;
  CHECK(cuCtxPopCurrent(&current));
  auto without = tiled(at(0), a);
  printf("  without a context: %s\n", error_name(without));
  EXPECT(without == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuCtxPushCurrent(current));
}

// -- copies by maps -----------------------------------------------------------

// Thread i of 256 reads element i of the tile at (x, y), as the copy left it in
// shared memory.
static const char* const kernels = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry take_tile(.param .align 64 .b8 map[128], .param .u64 to,
                          .param .u32 x, .param .u32 y)
{
  .shared .align 1024 .b8 tile[1024];
  .shared .align 8 .b64 arrived;
  .reg .pred %first, %done;
  .reg .b32 %i, %tile, %bar, %x, %y, %at;
  .reg .b64 %map, %to, %offset, %state;
  .reg .f32 %value;
  mov.u32 %i, %tid.x;
  mov.u32 %tile, tile;
  mov.u32 %bar, arrived;
  setp.eq.u32 %first, %i, 0;
  @!%first bra READY;
  mbarrier.init.shared::cta.b64 [%bar], 1;
  fence.proxy.async.shared::cta;
READY:
  bar.sync 0;
  @!%first bra WAIT;
  mov.b64 %map, map;
  cvta.param.u64 %map, %map;
  ld.param.u32 %x, [x];
  ld.param.u32 %y, [y];
  mbarrier.arrive.expect_tx.shared::cta.b64 %state, [%bar], 1024;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
    [%tile], [%map, {%x, %y}], [%bar];
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %done, [%bar], 0;
  @!%done bra WAIT;
  shl.b32 %at, %i, 2;
  add.u32 %at, %at, %tile;
  ld.shared.f32 %value, [%at];
  ld.param.u64 %to, [to];
  cvta.to.global.u64 %to, %to;
  mul.wide.u32 %offset, %i, 4;
  add.s64 %to, %to, %offset;
  st.global.f32 [%to], %value;
  ret;
}
)";

struct copier {
  CUmodule module;
  CUfunction take;
  CUdeviceptr out;

  copier() {
    CHECK(cuModuleLoadData(&module, kernels));
    CHECK(cuModuleGetFunction(&take, module, "take_tile"));
    CHECK(cuMemAlloc(&out, tile_columns * tile_lines * 4));
  }
  ~copier() {
    cuMemFree(out);
    cuModuleUnload(module);
  }

  std::vector<float> tile(CUtensorMap map, int x, int y) {
    void* parameters[] = {&map, &out, &x, &y};
    CHECK(cuLaunchKernel(take, 1, 1, 1, tile_columns * tile_lines, 1, 1, 0,
                         nullptr, parameters, nullptr));
    std::vector<float> got(tile_columns * tile_lines);
    CHECK(cuMemcpyDtoH(got.data(), out, got.size() * 4));
    return got;
  }
};

/// Returns element (column, line) of a matrix that begins at `from`, or 0
/// outside.
static float element(int column, int line, int from) {
  return column < static_cast<int>(columns) && line < static_cast<int>(lines)
             ? static_cast<float>(from + line * static_cast<int>(columns) +
                                  column)
             : 0.0f;
}

/// Returns where a swizzle of 128 bytes puts an element of a line of 32 floats:
/// the line's number permutes the pieces of 16 bytes.
static int swizzled(int column, int line) {
  return ((column / 4) ^ (line % 8)) * 4 + column % 4;
}

static void expect_tile(const std::vector<float>& got, int x, int y, int from,
                        bool is_swizzled) {
  int n = static_cast<int>(tile_columns);
  for (int line = 0; line < static_cast<int>(tile_lines); ++line)
    for (int column = 0; column < n; ++column) {
      int at = is_swizzled ? swizzled(column, line) : column;
      EXPECT(got[line * n + at] == element(x + column, y + line, from));
    }
}

static void copies(arguments a) {
  copier copy;
  alignas(64) CUtensorMap map;
  CHECK(tiled(&map, a));
  expect_tile(copy.tile(map, 0, 0), 0, 0, 0, false);
  expect_tile(copy.tile(map, 40, 12), 40, 12, 0, false);
  // Elements beyond the edges are zero.
  expect_tile(copy.tile(map, 240, 60), 240, 60, 0, false);
  printf("tiles are as they should be\n");

  // The second half of the memory is another matrix.
  alignas(64) CUtensorMap moved = map, made;
  auto there = a;
  there.address += columns * lines * 4;
  CHECK(cuTensorMapReplaceAddress(&moved,
                                  reinterpret_cast<void*>(there.address)));
  CHECK(tiled(&made, there));
  EXPECT(memcmp(&moved, &made, sizeof made) == 0);
  int from = static_cast<int>(columns * lines);
  expect_tile(copy.tile(moved, 8, 16), 8, 16, from, false);
  printf("so they are at another address\n");

  a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
  CHECK(tiled(&map, a));
  expect_tile(copy.tile(map, 32, 24), 32, 24, 0, true);
  printf("and swizzled\n");

  // Makes many maps, as a program does at each launch.
  for (int i = 0; i < 1000; ++i) {
    CHECK(tiled(&made, a));
    EXPECT(memcmp(&map, &made, sizeof made) == 0);
  }
}

int main() {
  CHECK(cudaFree(nullptr));
  int has = 0;
  CHECK(cuDeviceGetAttribute(
      &has, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 0));
  has_maps = has != 0;
  printf("this device has %stensor maps\n", has_maps ? "" : "no ");
  std::vector<float> matrices(2 * columns * lines);
  for (size_t i = 0; i < matrices.size(); ++i)
    matrices[i] = static_cast<float>(i);
  CUdeviceptr memory;
  CHECK(cuMemAlloc(&memory, matrices.size() * 4));
  CHECK(cuMemcpyHtoD(memory, matrices.data(), matrices.size() * 4));
  arguments right;
  right.address = memory;
  answers_to_tiles(right);
  answers_to_columns(right);
  answers_to_places(right);
  if (has_maps)
    copies(right);
  CHECK(cuMemFree(memory));
  printf("ok\n");
}
