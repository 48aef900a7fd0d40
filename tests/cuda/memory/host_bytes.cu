// nvcc: -lcuda
//
// When copies read and write the program's memory: each kind of host memory,
// each form of copy, each direction. A host function holds the stream up while
// the program makes the call, and the program changes the bytes before it lets
// the stream continue. (The answers are those of driver 580 on an H200.)
#include "../gate.hpp"

#include <cstring>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

constexpr std::size_t most = 4 << 20;

enum kind { pageable, pinned, registered, mapped, kinds };
const char* const kind_names[] = {"pageable", "pinned", "registered",
                                  "registered file"};
enum form {
  waiting,
  waiting_2d,
  async,
  async_2d,
  async_3d,
  batch_in_stream,
  batch_during_call,
  batch_any,
  graph_node,
  captured,
  forms
};
const char* const form_names[] = {
    "sync",       "sync 2D", "async",          "async 2D",
    "async 3D",   "batch",   "batch, at once", "batch, any order",
    "graph node", "captured"};

/// Says which bytes a copy used: those at the call, or those that the program
/// wrote after it.
enum class bytes { before, after, any };

struct answer {
  does call;
  bytes read;
};

bool is_graph(form x) {
  return x == graph_node || x == captured;
}
bool is_sync(form x) {
  return x == waiting || x == waiting_2d;
}

answer to_device(form how, kind from) {
  if (is_sync(how))
    return {does::waits, bytes::before};
  auto locked = from != pageable;
  if (how == batch_in_stream)
    return locked ? answer{does::returns, bytes::after}
                  : answer{does::waits, bytes::before};
  if (how == batch_during_call)
    return locked ? answer{does::waits, bytes::before}
                  : answer{does::returns, bytes::any};
  if (locked)
    return {does::returns, bytes::after};
  return how == batch_any ? answer{does::either, bytes::any}
                          : answer{does::either, bytes::before};
}

does to_host(form how, kind to) {
  if (is_sync(how) || how == batch_during_call)
    return does::waits;
  if (how == batch_in_stream || how == batch_any)
    return does::returns;
  return to == pageable ? does::waits : does::returns;
}

answer within_host(form how, kind from, kind to) {
  if (how == batch_in_stream || how == batch_any)
    return {does::returns, bytes::after};
  if (how == batch_during_call && (from == pageable || to == pageable))
    return {does::returns, bytes::before};
  return {does::waits, bytes::before};
}

/// Holds one copy of two rows or more, in any form.
class copy_call {
public:
  copy_call(form how, void* to, const void* from, std::size_t size,
            cudaMemcpyKind way, cudaStream_t in)
      : how_(how), to_(to), from_(from), size_(size), way_(way), in_(in) {
    if (!is_graph(how))
      return;
    cudaGraph_t graph;
    if (how == graph_node) {
      cudaGraphNode_t node;
      CHECK(cudaGraphCreate(&graph, 0));
      CHECK(cudaGraphAddMemcpyNode1D(&node, graph, nullptr, 0, to, from, size,
                                     way));
    } else {
      CHECK(cudaStreamBeginCapture(in, cudaStreamCaptureModeRelaxed));
      CHECK(cudaMemcpyAsync(to, from, size, way, in));
      CHECK(cudaStreamEndCapture(in, &graph));
    }
    CHECK(cudaGraphInstantiate(&exec_, graph, 0));
    CHECK(cudaGraphDestroy(graph));
  }
  ~copy_call() {
    if (exec_ != nullptr)
      CHECK(cudaGraphExecDestroy(exec_));
  }
  copy_call(const copy_call&) = delete;
  copy_call& operator=(const copy_call&) = delete;

  void operator()() const {
    auto half = size_ / 2;
    switch (how_) {
    case waiting:
      CHECK(cudaMemcpy(to_, from_, size_, way_));
      break;
    case waiting_2d:
      CHECK(cudaMemcpy2D(to_, half, from_, half, half, 2, way_));
      break;
    case async:
      CHECK(cudaMemcpyAsync(to_, from_, size_, way_, in_));
      break;
    case async_2d:
      CHECK(cudaMemcpy2DAsync(to_, half, from_, half, half, 2, way_, in_));
      break;
    case async_3d:
      copy_3d();
      break;
    case graph_node:
    case captured:
      CHECK(cudaGraphLaunch(exec_, in_));
      break;
    default:
      batch();
    }
  }

private:
  void copy_3d() const {
    auto row = size_ / 4;
    cudaMemcpy3DParms p{};
    p.srcPtr = make_cudaPitchedPtr(const_cast<void*>(from_), row, row, 2);
    p.dstPtr = make_cudaPitchedPtr(to_, row, row, 2);
    p.extent = make_cudaExtent(row, 2, 2);
    p.kind = way_;
    CHECK(cudaMemcpy3DAsync(&p, in_));
  }
  void batch() const {
    CUmemcpyAttributes how{};
    how.srcAccessOrder =
        how_ == batch_in_stream     ? CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
        : how_ == batch_during_call ? CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL
                                    : CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
    auto to = reinterpret_cast<CUdeviceptr>(to_);
    auto from = reinterpret_cast<CUdeviceptr>(from_);
    auto size = size_;
    std::size_t first = 0;
    CHECK(cuMemcpyBatchAsync(&to, &from, &size, 1, &how, &first, 1, in_));
  }

  const form how_;
  void* const to_;
  const void* const from_;
  const std::size_t size_;
  const cudaMemcpyKind way_;
  const cudaStream_t in_;
  cudaGraphExec_t exec_ = nullptr;
};

/// Holds memory of each kind.
struct host_memory {
  unsigned char* of[kinds];
  host_memory() {
    of[pageable] = static_cast<unsigned char*>(std::malloc(most));
    CHECK(cudaMallocHost(&of[pinned], most));
    of[registered] =
        static_cast<unsigned char*>(std::aligned_alloc(4096, most));
    CHECK(cudaHostRegister(of[registered], most, cudaHostRegisterDefault));
    auto file = memfd_create("bytes", 0);
    EXPECT(file >= 0 && ftruncate(file, most) == 0);
    of[mapped] = static_cast<unsigned char*>(
        mmap(nullptr, most, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    EXPECT(of[mapped] != MAP_FAILED);
    CHECK(cudaHostRegister(of[mapped], most, cudaHostRegisterMapped));
    ::close(file);
  }
  ~host_memory() {
    CHECK(cudaFreeHost(of[pinned]));
    CHECK(cudaHostUnregister(of[registered]));
    CHECK(cudaHostUnregister(of[mapped]));
    std::free(of[pageable]);
    std::free(of[registered]);
    munmap(of[mapped], most);
  }
};

gate door;
cudaStream_t stream;
unsigned char* device;

/// Ends the program with 1 unless all bytes have the value.
void expect_bytes(const std::string& name, const unsigned char* at,
                  std::size_t size, unsigned char value) {
  if (at[0] == value && std::memcmp(at, at + 1, size - 1) == 0)
    return;
  std::printf("%s: the bytes are not all %d; the first is %d, the last %d\n",
              name.c_str(), value, at[0], at[size - 1]);
  std::exit(1);
}

void try_to_device(form how, kind from, const host_memory& host,
                   std::size_t size) {
  auto name = std::string{"to device, "} + form_names[how] + ", from " +
              kind_names[from] + ", " + std::to_string(size);
  auto want = to_device(how, from);
  auto* source = host.of[from];
  std::memset(source, 1, size);
  CHECK(cudaMemset(device, 0, size));
  copy_call call{how, device, source, size, cudaMemcpyHostToDevice, stream};
  door.close(stream);
  expect(door, want.call, name.c_str(), call);
  std::memset(source, 2, size);
  door.open();
  CHECK(cudaDeviceSynchronize());
  static unsigned char got[most];
  CHECK(cudaMemcpy(got, device, size, cudaMemcpyDeviceToHost));
  if (want.read != bytes::any)
    expect_bytes(name, got, size, want.read == bytes::before ? 1 : 2);
}

void try_to_host(form how, kind to, const host_memory& host, std::size_t size) {
  auto name = std::string{"to host, "} + form_names[how] + ", to " +
              kind_names[to] + ", " + std::to_string(size);
  auto* target = host.of[to];
  std::memset(target, 1, size);
  CHECK(cudaMemset(device, 7, size));
  copy_call call{how, target, device, size, cudaMemcpyDeviceToHost, stream};
  cudaEvent_t done;
  CHECK(cudaEventCreate(&done));
  door.close(stream);
  auto want = to_host(how, to);
  expect(door, want, name.c_str(), call);
  if (want == does::returns) {
    // Nothing is written before the stream comes to the copy.
    CHECK(cudaEventRecord(done, stream));
    EXPECT(cudaEventQuery(done) == cudaErrorNotReady);
    expect_bytes(name, target, size, 1);
    door.open();
    CHECK(cudaEventSynchronize(done));
  }
  expect_bytes(name, target, size, 7);
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaEventDestroy(done));
}

void try_within_host(form how, kind from, kind to, const host_memory& one,
                     const host_memory& other, std::size_t size) {
  auto name = std::string{"within host, "} + form_names[how] + ", from " +
              kind_names[from] + " to " + kind_names[to] + ", " +
              std::to_string(size);
  auto want = within_host(how, from, to);
  auto* source = one.of[from];
  auto* target = other.of[to];
  std::memset(source, 1, size);
  std::memset(target, 0, size);
  copy_call call{how, target, source, size, cudaMemcpyHostToHost, stream};
  door.close(stream);
  expect(door, want.call, name.c_str(), call);
  if (want.read == bytes::before)
    expect_bytes(name, target, size, 1);
  std::memset(source, 2, size);
  door.open();
  CHECK(cudaDeviceSynchronize());
  expect_bytes(name, target, size, want.read == bytes::before ? 1 : 2);
}

/// Copies to and from managed memory, which the program must not touch while
/// the stream works.
void try_managed(std::size_t size) {
  unsigned char* managed;
  CHECK(cudaMallocManaged(&managed, size));
  for (auto how : {waiting, async}) {
    auto name = std::string{"managed, "} + form_names[how];
    std::memset(managed, 3, size);
    CHECK(cudaMemset(device, 0, size));
    door.close(stream);
    copy_call up{how, device, managed, size, cudaMemcpyDefault, stream};
    expect(door, how == waiting ? does::waits : does::returns, name.c_str(),
           up);
    door.open();
    CHECK(cudaMemsetAsync(managed, 4, size, stream));
    copy_call down{how, managed, device, size, cudaMemcpyDefault, stream};
    down();
    if (how == async)
      CHECK(cudaStreamSynchronize(stream));
    expect_bytes(name, managed, size, 3);
    CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaFree(managed));
}

int main() {
  {
    CHECK(cudaMalloc(&device, most));
    CHECK(cudaStreamCreate(&stream));
    host_memory one, other;
    for (auto size : {std::size_t{16}, most}) {
      for (int how = 0; how < forms; ++how)
        for (int x = 0; x < kinds; ++x) {
          try_to_device(form(how), kind(x), one, size);
          try_to_host(form(how), kind(x), one, size);
        }
      for (auto how : {waiting, async, batch_in_stream, batch_during_call,
                       batch_any, graph_node})
        for (auto from : {pageable, pinned, registered})
          for (auto to : {pageable, pinned, registered})
            try_within_host(how, from, to, one, other, size);
      try_managed(size);
    }
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(device));
  }
  std::printf("ok\n");
}
