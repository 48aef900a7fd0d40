// Several copies in one call: their results, and the errors of wrong ones.
// nvcc: -lcuda
#include "../check.hpp"

#include <cstring>
#include <vector>

const size_t piece = 4096;
const int pieces = 4;

struct memory {
  CUdeviceptr from, to, managed;
  char* pinned;
  CUstream stream, blocking;

  memory() {
    CHECK(cuMemAlloc(&from, pieces * piece));
    CHECK(cuMemAlloc(&to, pieces * piece));
    CHECK(cuMemAllocManaged(&managed, pieces * piece, CU_MEM_ATTACH_GLOBAL));
    CHECK(cuMemHostAlloc(reinterpret_cast<void**>(&pinned), pieces * piece, 0));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    for (int i = 0; i < pieces; ++i)
      CHECK(cuMemsetD8(from + i * piece, static_cast<unsigned char>(i + 1),
                       piece));
    clear();
  }

  void clear() {
    CHECK(cuMemsetD8(to, 0, pieces * piece));
    CHECK(cuCtxSynchronize());
  }

  /// Returns the first byte of each target piece.
  std::vector<int> copied() {
    std::vector<char> all(pieces * piece);
    CHECK(cuMemcpyDtoH(all.data(), to, all.size()));
    std::vector<int> out;
    for (int i = 0; i < pieces; ++i) {
      for (size_t k = 0; k < piece; ++k)
        EXPECT(all[i * piece + k] == all[i * piece]);
      out.push_back(all[i * piece]);
    }
    return out;
  }
};

struct batch {
  CUdeviceptr to[pieces], from[pieces];
  size_t sizes[pieces], first[pieces] = {0, 1, 2, 3};
  CUmemcpyAttributes attributes[pieces];
  size_t count = pieces, groups = 1;
  CUstream stream;

  explicit batch(const memory& m) : stream(m.stream) {
    memset(attributes, 0, sizeof attributes);
    for (int i = 0; i < pieces; ++i) {
      to[i] = m.to + i * piece;
      from[i] = m.from + i * piece;
      sizes[i] = piece;
      attributes[i].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    }
  }

  CUresult go() {
    return cuMemcpyBatchAsync(to, from, sizes, count, attributes, first, groups,
                              stream);
  }
};

using order = CUmemcpySrcAccessOrder;

/// Checks that a batch modified by `change` gives the result of a real driver
/// (580, on an H200).
template <class Change>
void answer(CUresult code, const char* what, memory& m, Change change) {
  batch b{m};
  change(b);
  auto got = b.go();
  printf("  %s: %s\n", what, error_name(got));
  EXPECT(got == code);
  CHECK(cuCtxSynchronize());
}
#define BATCH(code, ...)                                                       \
  answer(code, #__VA_ARGS__, m, [&](batch& b) { __VA_ARGS__; })

static void flat(memory& m) {
  printf("flat\n");
  batch whole{m};
  CHECK(whole.go());
  CHECK(cuStreamSynchronize(m.stream));
  EXPECT((m.copied() == std::vector<int>{1, 2, 3, 4}));
  static char pageable[piece];
  memset(pageable, 9, sizeof pageable);
  auto on_host = reinterpret_cast<CUdeviceptr>(pageable);
  auto pinned = reinterpret_cast<CUdeviceptr>(m.pinned);
  BATCH(CUDA_ERROR_INVALID_VALUE, b.count = 0);
  BATCH(CUDA_SUCCESS, b.count = 1);
  BATCH(CUDA_ERROR_INVALID_VALUE, b.stream = nullptr);
  BATCH(CUDA_ERROR_INVALID_VALUE, b.stream = CU_STREAM_LEGACY);
  BATCH(CUDA_SUCCESS, b.stream = CU_STREAM_PER_THREAD);
  BATCH(CUDA_SUCCESS, b.stream = m.blocking);
  BATCH(CUDA_ERROR_INVALID_VALUE, b.groups = 0);
  BATCH(CUDA_SUCCESS, b.groups = 4);
  BATCH(CUDA_ERROR_INVALID_VALUE, b.count = 1; b.groups = 2);
  BATCH(CUDA_ERROR_INVALID_VALUE, b.first[0] = 1);
  BATCH(CUDA_ERROR_INVALID_VALUE, b.groups = 2; b.first[1] = 0);
  BATCH(CUDA_ERROR_INVALID_VALUE, b.groups = 3; b.first[1] = 3);
  BATCH(CUDA_ERROR_INVALID_VALUE, b.groups = 2; b.first[1] = 4);
  BATCH(CUDA_ERROR_INVALID_VALUE,
        b.attributes[0].srcAccessOrder = static_cast<order>(0));
  BATCH(CUDA_SUCCESS, b.attributes[0].srcAccessOrder = static_cast<order>(3));
  BATCH(CUDA_ERROR_INVALID_VALUE,
        b.attributes[0].srcAccessOrder = static_cast<order>(4));
  BATCH(CUDA_SUCCESS, b.attributes[0].flags = 1);
  BATCH(CUDA_ERROR_INVALID_VALUE, b.attributes[0].flags = 2);
  BATCH(CUDA_ERROR_INVALID_VALUE, b.sizes[2] = 0);
  BATCH(CUDA_ERROR_INVALID_VALUE, b.sizes[3] = size_t{1} << 40);
  BATCH(CUDA_ERROR_INVALID_VALUE, b.to[1] = 0);
  BATCH(CUDA_ERROR_INVALID_VALUE, b.from[2] = 0);
  BATCH(CUDA_ERROR_INVALID_VALUE,
        b.attributes[0].srcLocHint.type = static_cast<CUmemLocationType>(77));
  BATCH(CUDA_SUCCESS,
        b.attributes[0].dstLocHint.type = CU_MEM_LOCATION_TYPE_HOST);
  BATCH(CUDA_SUCCESS, b.from[0] = on_host);
  BATCH(CUDA_SUCCESS, b.from[0] = pinned);
  BATCH(CUDA_SUCCESS, b.to[0] = on_host);
  BATCH(CUDA_SUCCESS, b.to[0] = pinned);
  BATCH(CUDA_SUCCESS, b.from[0] = m.managed);
}

/// Copies from the host and back, with each order of accesses to the source.
static void round_trip(memory& m) {
  std::vector<int> there(piece), back(piece);
  for (size_t i = 0; i < piece; ++i)
    there[i] = static_cast<int>(i * 7);
  for (auto how : {CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
                   CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL,
                   CU_MEMCPY_SRC_ACCESS_ORDER_ANY}) {
    m.clear();
    batch b{m};
    b.attributes[0].srcAccessOrder = how;
    for (int i = 0; i < pieces; ++i)
      b.from[i] =
          reinterpret_cast<CUdeviceptr>(there.data() + i * piece / sizeof(int));
    CHECK(b.go());
    CHECK(cuStreamSynchronize(m.stream));
    CHECK(cuMemcpyDtoH(back.data(), m.to, pieces * piece));
    EXPECT(memcmp(back.data(), there.data(), pieces * piece) == 0);
  }
  printf("what the host has arrives\n");
}

// -- boxes --------------------------------------------------------------------

static CUDA_MEMCPY3D_BATCH_OP box(CUdeviceptr to, CUdeviceptr from) {
  CUDA_MEMCPY3D_BATCH_OP x;
  memset(&x, 0, sizeof x);
  x.src.type = x.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  x.src.op.ptr.ptr = from;
  x.dst.op.ptr.ptr = to;
  x.extent = {16, 4, 2};
  x.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  return x;
}

template <class Change>
void answer_box(CUresult code, const char* what, memory& m, Change change) {
  CUDA_MEMCPY3D_BATCH_OP two[] = {box(m.to, m.from),
                                  box(m.to + piece, m.from + piece)};
  change(two[1]);
  auto got = cuMemcpy3DBatchAsync(2, two, 0, m.stream);
  printf("  %s: %s\n", what, error_name(got));
  EXPECT(got == code);
  CHECK(cuCtxSynchronize());
}
#define BOX(code, ...)                                                         \
  answer_box(code, #__VA_ARGS__, m,                                            \
             [&](CUDA_MEMCPY3D_BATCH_OP& x) { __VA_ARGS__; })

static void show_array(CUmemcpy3DOperand& x, CUarray a, CUoffset3D from) {
  memset(&x, 0, sizeof x);
  x.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
  x.op.array.array = a;
  x.op.array.offset = from;
}

static void boxes(memory& m) {
  printf("boxes\n");
  BOX(CUDA_ERROR_INVALID_VALUE, x.extent.width = 0);
  BOX(CUDA_ERROR_INVALID_VALUE, x.extent.height = 0);
  BOX(CUDA_ERROR_INVALID_VALUE, x.extent.depth = 0);
  BOX(CUDA_ERROR_INVALID_VALUE,
      x.src.type = static_cast<CUmemcpy3DOperandType>(0));
  BOX(CUDA_ERROR_INVALID_VALUE,
      x.dst.type = static_cast<CUmemcpy3DOperandType>(3));
  BOX(CUDA_ERROR_INVALID_VALUE, x.src.op.ptr.rowLength = 15);
  BOX(CUDA_ERROR_INVALID_VALUE, x.src.op.ptr.rowLength = 64;
      x.src.op.ptr.layerHeight = 3);
  BOX(CUDA_ERROR_INVALID_VALUE, x.srcAccessOrder = static_cast<order>(0));
  BOX(CUDA_ERROR_INVALID_VALUE, x.flags = 2);
  BOX(CUDA_ERROR_INVALID_VALUE, x.src.op.ptr.ptr = 0);
  BOX(CUDA_ERROR_INVALID_VALUE, x.extent.width = size_t{1} << 30);
  auto one = box(m.to, m.from);
  auto bad = CUDA_ERROR_INVALID_VALUE;
  EXPECT(cuMemcpy3DBatchAsync(0, &one, 0, m.stream) == bad);
  EXPECT(cuMemcpy3DBatchAsync(1, &one, 1, m.stream) == bad);
  EXPECT(cuMemcpy3DBatchAsync(1, &one, 0, nullptr) == bad);
}

/// Copies through an array with elements of several bytes. Rows and offsets
/// count elements.
static void through_an_array(memory& m) {
  CUDA_ARRAY3D_DESCRIPTOR shape;
  memset(&shape, 0, sizeof shape);
  shape.Width = 32;
  shape.Height = 16;
  shape.Depth = 4;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
  CUarray array;
  CHECK(cuArray3DCreate(&array, &shape));
  float there[2][4][16], back[2][5][20];
  for (int i = 0; i < 128; ++i)
    (&there[0][0][0])[i] = static_cast<float>(i);
  auto in = box(0, reinterpret_cast<CUdeviceptr>(there));
  show_array(in.dst, array, {8, 6, 1});
  CHECK(cuMemcpy3DBatchAsync(1, &in, 0, m.stream));
  memset(back, 0xff, sizeof back);
  auto out = box(m.to, 0);
  show_array(out.src, array, {8, 6, 1});
  out.dst.op.ptr.rowLength = 20;
  out.dst.op.ptr.layerHeight = 5;
  CHECK(cuMemcpy3DBatchAsync(1, &out, 0, m.stream));
  CHECK(cuStreamSynchronize(m.stream));
  CHECK(cuMemcpyDtoH(back, m.to, sizeof back));
  for (int z = 0; z < 2; ++z)
    for (int y = 0; y < 4; ++y)
      for (int x = 0; x < 16; ++x)
        EXPECT(back[z][y][x] == there[z][y][x]);
  BOX(CUDA_SUCCESS, show_array(x.dst, array, {16, 12, 2}));
  BOX(CUDA_ERROR_INVALID_VALUE, show_array(x.dst, array, {17, 12, 2}));
  CHECK(cuArrayDestroy(array));
  printf("what an array has arrives\n");
}

/// Batches cannot be captured, and the attempt does not end the capture.
static void captured(memory& m) {
  batch b{m};
  CUgraph graph;
  CHECK(cuStreamBeginCapture(m.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT(b.go() == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(cuStreamEndCapture(m.stream, &graph));
  CHECK(cuGraphDestroy(graph));
  printf("a capture goes on without\n");
}

/// Prefetches and discards ranges of managed memory.
static void ranges(memory& m) {
  CUdeviceptr at[] = {m.managed, m.managed + piece};
  size_t sizes[] = {piece, piece}, first[] = {0, 1};
  CUmemLocation places[] = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                            {CU_MEM_LOCATION_TYPE_HOST, 0}};
  auto good = CUDA_SUCCESS, bad = CUDA_ERROR_INVALID_VALUE;
  auto bring = [&](CUresult brought, CUresult forgotten, size_t count,
                   size_t groups, CUstream stream) {
    EXPECT(cuMemPrefetchBatchAsync(at, sizes, count, places, first, groups, 0,
                                   stream) == brought);
    EXPECT(cuMemDiscardBatchAsync(at, sizes, count, 0, stream) == forgotten);
    EXPECT(cuMemDiscardAndPrefetchBatchAsync(at, sizes, count, places, first,
                                             groups, 0, stream) == brought);
  };
  bring(good, good, 2, 2, m.stream);
  bring(bad, bad, 0, 0, m.stream);
  bring(bad, good, 2, 0, m.stream);
  bring(bad, bad, 2, 2, nullptr);
  first[1] = 0; // wrong here, but valid for copies
  bring(good, good, 2, 2, m.stream);
  first[1] = 2;
  bring(bad, good, 2, 2, m.stream);
  first[1] = 1;
  places[1] = {CU_MEM_LOCATION_TYPE_DEVICE, 99};
  bring(bad, good, 2, 2, m.stream);
  places[1] = places[0];
  sizes[1] = 0;
  bring(bad, bad, 2, 2, m.stream);
  sizes[1] = piece;
  at[1] = m.to;
  bring(bad, bad, 2, 2, m.stream);
  CHECK(cuStreamSynchronize(m.stream));
  printf("ranges are brought and forgotten\n");
}

int main() {
  CHECK(cudaFree(nullptr));
  memory m;
  flat(m);
  round_trip(m);
  boxes(m);
  through_an_array(m);
  captured(m);
  ranges(m);
  printf("ok\n");
}
