// Streams that write words of memory and wait for them, by the driver API: in
// device memory and pinned memory, of 4 and 8 bytes, one by one and in batches,
// captured and as nodes of graphs. An open wait blocks only its own stream.
// nvcc: -lcuda
#include "../check.hpp"

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#define OK(call)                                                               \
  do {                                                                         \
    CUresult ok_result = (call);                                               \
    if (ok_result != CUDA_SUCCESS) {                                           \
      std::printf("%s:%d: %s: error %d\n", __FILE__, __LINE__, #call,          \
                  static_cast<int>(ok_result));                                \
      std::exit(1);                                                            \
    }                                                                          \
  } while (0)

using word = unsigned;
using wide = unsigned long long;

__global__ void add(word* to, word what) {
  *to += what;
}
__global__ void set(volatile word* to, word what) {
  *to = what;
}

static CUdeviceptr at(const volatile void* p) {
  return reinterpret_cast<CUdeviceptr>(const_cast<void*>(p));
}
static word read(const word* p) {
  word out = 0;
  CHECK(cudaMemcpy(&out, p, sizeof out, cudaMemcpyDefault));
  return out;
}
template <class T>
static void host_set(T* p, T value) {
  __atomic_store_n(p, value, __ATOMIC_RELEASE);
}
template <class T>
static void await_on_host(const T* p, T value) {
  while (__atomic_load_n(p, __ATOMIC_ACQUIRE) != value)
    std::this_thread::yield();
}
static bool is_busy(cudaStream_t s) {
  auto code = cudaStreamQuery(s);
  EXPECT(code == cudaSuccess || code == cudaErrorNotReady);
  return code == cudaErrorNotReady;
}

struct world {
  cudaStream_t a, b;
  word* dev;  // 16 words
  word* host; // pinned, 16 words

  world() {
    CHECK(cudaStreamCreate(&a));
    CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&dev, 64));
    CHECK(cudaMallocHost(&host, 64));
    // The first launch of a kernel loads its code, which may wait for all
    // streams. So it must not come behind an open wait.
    add<<<1, 1>>>(dev, 0);
    set<<<1, 1>>>(dev, 0);
    clear();
  }
  void clear() {
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemset(dev, 0, 64));
    for (int i = 0; i < 16; ++i)
      host[i] = 0;
    CHECK(cudaDeviceSynchronize());
  }
};

static void writes(world& w) {
  OK(cuStreamWriteValue32(w.a, at(w.dev + 1), 0xdeadbeef, 0));
  OK(cuStreamWriteValue64(w.a, at(w.dev + 2), 0x0123456789abcdefull, 0));
  OK(cuStreamWriteValue32(w.a, at(w.host + 1), 17,
                          CU_STREAM_WRITE_VALUE_DEFAULT));
  OK(cuStreamWriteValue64(w.a, at(w.host + 2), 0xfedcba9876543210ull, 0));
  CHECK(cudaStreamSynchronize(w.a));
  EXPECT(read(w.dev) == 0 && read(w.dev + 1) == 0xdeadbeef);
  EXPECT(read(w.dev + 2) == 0x89abcdef && read(w.dev + 3) == 0x01234567);
  EXPECT(w.host[0] == 0 && w.host[1] == 17 && w.host[4] == 0);
  EXPECT(*reinterpret_cast<wide*>(w.host + 2) == 0xfedcba9876543210ull);

  // A copy sees what the stream wrote before it.
  OK(cuStreamWriteValue32(w.a, at(w.host + 5), 55, 0));
  CHECK(cudaMemcpyAsync(w.dev + 5, w.host + 5, 4, cudaMemcpyHostToDevice, w.a));
  CHECK(cudaStreamSynchronize(w.a));
  EXPECT(read(w.dev + 5) == 55);
  w.clear();
}

/// Tests one kind of wait, which blocks while the word is `before` and ends
/// when it is `after`.
template <class T>
static void one_wait(world& w, bool on_host, T before, T after, T value,
                     unsigned how) {
  auto* flag = reinterpret_cast<T*>(on_host ? w.host + 8 : w.dev + 8);
  auto write = [&](T x) {
    if (on_host)
      host_set(flag, x);
    else if (sizeof(T) == 8)
      OK(cuStreamWriteValue64(w.b, at(flag), x, 0));
    else
      OK(cuStreamWriteValue32(w.b, at(flag), static_cast<word>(x), 0));
  };
  write(before);
  CHECK(cudaStreamSynchronize(w.b));
  if (sizeof(T) == 8)
    OK(cuStreamWaitValue64(w.a, at(flag), value, how));
  else
    OK(cuStreamWaitValue32(w.a, at(flag), static_cast<word>(value), how));
  add<<<1, 1, 0, w.a>>>(w.dev, 1);
  EXPECT(is_busy(w.a));
  write(after);
  CHECK(cudaStreamSynchronize(w.a));
  EXPECT(read(w.dev) == 1);
  w.clear();
}

static void waits(world& w) {
  for (bool on_host : {false, true}) {
    one_wait<word>(w, on_host, 4, 7, 5, CU_STREAM_WAIT_VALUE_GEQ);
    // The comparison is cyclic.
    one_wait<word>(w, on_host, 0xfffffff0, 3, 1, CU_STREAM_WAIT_VALUE_GEQ);
    one_wait<word>(w, on_host, 6, 5, 5, CU_STREAM_WAIT_VALUE_EQ);
    one_wait<word>(w, on_host, 8, 12, 6, CU_STREAM_WAIT_VALUE_AND);
    one_wait<word>(w, on_host, 1, 2, 0xfffffffe, CU_STREAM_WAIT_VALUE_NOR);
    one_wait<wide>(w, on_host, 1ull << 40, (1ull << 40) + 2, (1ull << 40) + 1,
                   CU_STREAM_WAIT_VALUE_GEQ);
    // The lower halves are equal.
    one_wait<wide>(w, on_host, 5, (1ull << 32) + 5, (1ull << 32) + 5,
                   CU_STREAM_WAIT_VALUE_EQ);
    one_wait<wide>(w, on_host, 1, 1ull << 63, 3ull << 62,
                   CU_STREAM_WAIT_VALUE_AND);
  }
}

/// Lets a copy, a memset, a kernel or another stream write the value.
static void bringers(world& w) {
  auto hold = [&](const word* flag, word value) {
    OK(cuStreamWaitValue32(w.b, at(flag), value, CU_STREAM_WAIT_VALUE_EQ));
    add<<<1, 1, 0, w.b>>>(w.dev, 1);
    EXPECT(is_busy(w.b));
  };
  word value = 21;
  hold(w.dev + 4, 21);
  CHECK(cudaMemcpy(w.dev + 4, &value, 4, cudaMemcpyHostToDevice));
  CHECK(cudaStreamSynchronize(w.b));
  hold(w.dev + 5, 0x02020202);
  CHECK(cudaMemset(w.dev + 5, 2, 4));
  CHECK(cudaStreamSynchronize(w.b));
  hold(w.dev + 6, 9);
  set<<<1, 1, 0, w.a>>>(w.dev + 6, 9);
  CHECK(cudaStreamSynchronize(w.b));
  hold(w.host + 7, 11);
  OK(cuStreamWriteValue32(w.a, at(w.host + 7), 11, 0));
  CHECK(cudaStreamSynchronize(w.b));
  EXPECT(read(w.dev) == 4);
  w.clear();
}

/// Uses registered memory in place of pinned memory.
static void registered(world& w) {
  static word page[2048];
  CHECK(cudaHostRegister(page, sizeof page, cudaHostRegisterMapped));
  auto flag = at(page); // CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
  OK(cuStreamWaitValue32(w.a, flag + 4, 3, CU_STREAM_WAIT_VALUE_EQ));
  OK(cuStreamWriteValue32(w.a, flag + 8, 4, 0));
  EXPECT(is_busy(w.a));
  host_set(page + 1, word{3});
  await_on_host(page + 2, word{4});
  CHECK(cudaStreamSynchronize(w.a));
  CHECK(cudaHostUnregister(page));
}

/// Two streams alternate by a word, without the host.
static void ping_pong(world& w) {
  constexpr word rounds = 50;
  for (word i = 1; i <= rounds; ++i) {
    OK(cuStreamWaitValue32(w.b, at(w.dev + 4), i, CU_STREAM_WAIT_VALUE_GEQ));
    add<<<1, 1, 0, w.b>>>(w.dev, i);
    OK(cuStreamWriteValue32(w.b, at(w.dev + 5), i, 0));
    OK(cuStreamWriteValue32(w.a, at(w.dev + 4), i, 0));
    OK(cuStreamWaitValue32(w.a, at(w.dev + 5), i, CU_STREAM_WAIT_VALUE_GEQ));
    add<<<1, 1, 0, w.a>>>(w.dev, i);
  }
  CHECK(cudaStreamSynchronize(w.a));
  EXPECT(read(w.dev) == rounds * (rounds + 1));
  w.clear();
}

static CUstreamBatchMemOpParams wait_op(const word* flag, word value,
                                        unsigned how) {
  CUstreamBatchMemOpParams x{};
  x.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  x.waitValue.address = at(flag);
  x.waitValue.value = value;
  x.waitValue.flags = how;
  return x;
}
static CUstreamBatchMemOpParams write_op(const word* to, word value) {
  CUstreamBatchMemOpParams x{};
  x.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  x.writeValue.address = at(to);
  x.writeValue.value = value;
  return x;
}

static void batches(world& w) {
  CUstreamBatchMemOpParams ops[] = {
      write_op(w.dev + 1, 1), wait_op(w.host, 5, CU_STREAM_WAIT_VALUE_GEQ),
      write_op(w.host + 1, 2), wait_op(w.dev + 1, 1, CU_STREAM_WAIT_VALUE_EQ),
      write_op(w.dev + 2, 3)};
  OK(cuStreamBatchMemOp(w.a, 5, ops, 0));
  EXPECT(is_busy(w.a));
  EXPECT(__atomic_load_n(w.host + 1, __ATOMIC_ACQUIRE) == 0);
  host_set(w.host, word{5});
  CHECK(cudaStreamSynchronize(w.a));
  EXPECT(w.host[1] == 2 && read(w.dev + 2) == 3);
  OK(cuStreamBatchMemOp(w.a, 0, nullptr, 0));
  w.clear();
}

/// Other streams continue, however much work they have, and so do copies and
/// allocations that do not wait for the device.
static void nobody_else_waits(world& w) {
  cudaStream_t c;
  word* more = nullptr;
  CHECK(cudaStreamCreate(&c));
  CHECK(cudaMalloc(&more, 4));
  CHECK(cudaMemset(more, 0, 4));
  CHECK(cudaStreamSynchronize(nullptr));
  OK(cuStreamWaitValue32(w.a, at(w.dev + 4), 1, CU_STREAM_WAIT_VALUE_EQ));
  OK(cuStreamWaitValue32(w.a, at(w.host), 1, CU_STREAM_WAIT_VALUE_EQ));
  add<<<1, 1, 0, w.a>>>(w.dev, 1);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 1000; ++i)
      add<<<1, 1, 0, round == 1 ? w.b : c>>>(more, 1);
    CHECK(cudaStreamSynchronize(round == 1 ? w.b : c));
  }
  word got = 0;
  CHECK(cudaMemcpyAsync(&got, more, 4, cudaMemcpyDeviceToHost, w.b));
  CHECK(cudaStreamSynchronize(w.b));
  EXPECT(got == 3000);
  w.host[1] = 7;
  CHECK(cudaMemcpyAsync(more, w.host + 1, 4, cudaMemcpyHostToDevice, w.b));
  CHECK(cudaStreamSynchronize(w.b));
  EXPECT(is_busy(w.a));
  OK(cuStreamWriteValue32(w.b, at(w.dev + 4), 1, 0));
  host_set(w.host, word{1});
  CHECK(cudaStreamSynchronize(w.a));
  EXPECT(read(w.dev) == 1 && read(more) == 7);
  CHECK(cudaStreamDestroy(c));
  CHECK(cudaFree(more));
  w.clear();
}

/// Enqueues more work behind a wait than a GPU's queue holds. The launching
/// thread blocks then, but the thread that ends the wait does not.
static void far_ahead(world& w) {
  constexpr int launches = 3000;
  std::mutex lock;
  std::condition_variable grown;
  int done = 0;
  OK(cuStreamWaitValue32(w.a, at(w.dev + 4), 1, CU_STREAM_WAIT_VALUE_EQ));
  CUcontext current;
  OK(cuCtxGetCurrent(&current));
  std::thread ends_it([&] {
    OK(cuCtxSetCurrent(current));
    std::unique_lock guard{lock};
    grown.wait_for(guard, std::chrono::milliseconds{500},
                   [&] { return done == launches; });
    OK(cuStreamWriteValue32(w.b, at(w.dev + 4), 1, 0));
  });
  for (int i = 0; i < launches; ++i) {
    add<<<1, 1, 0, w.a>>>(w.dev, 1);
    std::lock_guard guard{lock};
    ++done;
    grown.notify_one();
  }
  CHECK(cudaStreamSynchronize(w.a));
  ends_it.join();
  EXPECT(read(w.dev) == launches);
  w.clear();
}

static void captured(world& w) {
  CUgraph graph;
  CUgraphExec exec;
  OK(cuStreamBeginCapture(w.b, CU_STREAM_CAPTURE_MODE_RELAXED));
  OK(cuStreamWaitValue32(w.b, at(w.host), 1, CU_STREAM_WAIT_VALUE_GEQ));
  add<<<1, 1, 0, w.b>>>(w.dev, 1);
  OK(cuStreamWriteValue32(w.b, at(w.host + 1), 9, 0));
  OK(cuStreamEndCapture(w.b, &graph));
  EXPECT(w.host[1] == 0);

  CUgraphNode nodes[3];
  size_t count = 3;
  OK(cuGraphGetNodes(graph, nodes, &count));
  EXPECT(count == 3);
  int operations = 0;
  for (auto node : nodes) {
    CUgraphNodeType type;
    OK(cuGraphNodeGetType(node, &type));
    operations += type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  }
  EXPECT(operations == 2);

  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphLaunch(exec, w.b));
  EXPECT(is_busy(w.b));
  host_set(w.host, word{1});
  await_on_host(w.host + 1, word{9});
  OK(cuGraphLaunch(exec, w.b));
  CHECK(cudaStreamSynchronize(w.b));
  EXPECT(read(w.dev) == 2);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
  w.clear();
}

static void nodes_of_graphs(world& w) {
  CUgraph graph;
  CUgraphNode first, second;
  CUgraphExec exec;
  CUcontext current;
  OK(cuCtxGetCurrent(&current));
  OK(cuGraphCreate(&graph, 0));
  // The waiting node comes first, and does not depend on the one that it waits
  // for.
  CUstreamBatchMemOpParams waits[] = {
      wait_op(w.dev + 1, 1, CU_STREAM_WAIT_VALUE_EQ), write_op(w.dev + 2, 2)};
  CUDA_BATCH_MEM_OP_NODE_PARAMS params{current, 2, waits, 0};
  OK(cuGraphAddBatchMemOpNode(&first, graph, nullptr, 0, &params));
  auto one = write_op(w.dev + 1, 1);
  CUgraphNodeParams any{};
  any.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  any.memOp.ctx = current;
  any.memOp.count = 1;
  any.memOp.paramArray = &one;
  OK(cuGraphAddNode(&second, graph, nullptr, nullptr, 0, &any));

  CUDA_BATCH_MEM_OP_NODE_PARAMS got{};
  OK(cuGraphBatchMemOpNodeGetParams(first, &got));
  EXPECT(got.count == 2 && got.ctx == current && got.flags == 0);
  EXPECT(got.paramArray[1].operation == CU_STREAM_MEM_OP_WRITE_VALUE_32);
  EXPECT(got.paramArray[1].writeValue.value == 2);

  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphLaunch(exec, w.a));
  CHECK(cudaStreamSynchronize(w.a));
  EXPECT(read(w.dev + 2) == 2);

  // In an instantiated graph, values can change but operations cannot.
  waits[1].writeValue.value = 33;
  OK(cuGraphExecBatchMemOpNodeSetParams(exec, first, &params));
  auto other = params;
  other.count = 1;
  EXPECT(cuGraphExecBatchMemOpNodeSetParams(exec, first, &other) ==
         CUDA_ERROR_INVALID_VALUE);
  OK(cuGraphLaunch(exec, w.a));
  CHECK(cudaStreamSynchronize(w.a));
  EXPECT(read(w.dev + 2) == 33);
  waits[1].writeValue.value = 44;
  OK(cuGraphBatchMemOpNodeSetParams(first, &params));
  OK(cuGraphBatchMemOpNodeGetParams(first, &got));
  EXPECT(got.paramArray[1].writeValue.value == 44);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
  w.clear();
}

static void mistakes(world& w) {
  static word plain[4];
  constexpr auto invalid = CUDA_ERROR_INVALID_VALUE;
  auto flag = at(w.dev);
  EXPECT(cuStreamWaitValue32(w.a, 0, 1, 0) == invalid);
  EXPECT(cuStreamWaitValue32(w.a, flag + 2, 1, 0) == invalid);
  EXPECT(cuStreamWriteValue64(w.a, flag + 4, 1, 0) == invalid);
  EXPECT(cuStreamWaitValue32(w.a, at(plain), 1, 0) == invalid);
  EXPECT(cuStreamWriteValue32(w.a, at(plain), 1, 0) == invalid);
  EXPECT(cuStreamWaitValue32(w.a, flag, 1, 8) == invalid);
  EXPECT(cuStreamWriteValue32(w.a, flag, 1, 4) == invalid);
  int flushes = 0;
  OK(cuDeviceGetAttribute(&flushes, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES,
                          0));
  if (flushes == 0)
    EXPECT(cuStreamWaitValue32(w.a, flag, 0, CU_STREAM_WAIT_VALUE_FLUSH) ==
           CUDA_ERROR_NOT_SUPPORTED);
  auto op = write_op(w.dev, 1);
  EXPECT(cuStreamBatchMemOp(w.a, 1, &op, 1) == invalid);
  // A batch with an error does nothing.
  CUstreamBatchMemOpParams two[] = {op, write_op(plain, 1)};
  EXPECT(cuStreamBatchMemOp(w.a, 2, two, 0) == invalid);
  two[1].operation = static_cast<CUstreamBatchMemOpType>(99);
  EXPECT(cuStreamBatchMemOp(w.a, 2, two, 0) == invalid);
  CHECK(cudaStreamSynchronize(w.a));
  EXPECT(read(w.dev) == 0);
}

int main() {
  world w;
  writes(w);
  waits(w);
  bringers(w);
  registered(w);
  ping_pong(w);
  batches(w);
  nobody_else_waits(w);
  far_ahead(w);
  captured(w);
  nodes_of_graphs(w);
  mistakes(w);
  std::puts("ok");
}
