// nvcc: -lcuda
//
// Page-locked memory is read and written in the order of the streams: what
// earlier work wrote there arrives, whoever wrote it, and the program waits for
// nothing in between.
#include "../gate.hpp"

#include <cstdint>
#include <cstring>
#include <vector>

constexpr int n = 300000;
constexpr std::size_t size = n * sizeof(std::uint32_t);

__global__ void fill(std::uint32_t* to, std::uint32_t value) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += gridDim.x * blockDim.x)
    to[i] = value + i;
}

__global__ void compare(const std::uint32_t* at, std::uint32_t value,
                        unsigned* wrong) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += gridDim.x * blockDim.x)
    if (at[i] != value + i)
      atomicAdd(wrong, 1);
}

/// Names memory, and a value that a host function writes or expects there.
struct host_part {
  std::uint32_t* at;
  std::uint32_t value;
  bool right = false;
};

void CUDART_CB write_part(void* x) {
  auto* part = static_cast<host_part*>(x);
  for (int i = 0; i < n; ++i)
    part->at[i] = part->value + i;
}

void CUDART_CB read_part(void* x) {
  auto* part = static_cast<host_part*>(x);
  part->right = true;
  for (int i = 0; i < n; ++i)
    part->right = part->right && part->at[i] == part->value + i;
}

struct fixture {
  std::uint32_t *one, *two;
  unsigned* wrong;
  cudaStream_t s, t;
  cudaEvent_t event;
  fixture() {
    CHECK(cudaMalloc(&one, size));
    CHECK(cudaMalloc(&two, size));
    CHECK(cudaMalloc(&wrong, sizeof(unsigned)));
    CHECK(cudaMemset(wrong, 0, sizeof(unsigned)));
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK(cudaStreamCreate(&t));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaDeviceSynchronize());
  }
  ~fixture() {
    CHECK(cudaFree(one));
    CHECK(cudaFree(two));
    CHECK(cudaFree(wrong));
    CHECK(cudaStreamDestroy(s));
    CHECK(cudaStreamDestroy(t));
    CHECK(cudaEventDestroy(event));
  }
  void make(std::uint32_t value, std::uint32_t* to, cudaStream_t in) const {
    fill<<<8, 256, 0, in>>>(to, value);
    CHECK(cudaGetLastError());
  }
  /// Compares what a copy brought to the device.
  void expect(std::uint32_t value, cudaStream_t in) const {
    compare<<<8, 256, 0, in>>>(two, value, wrong);
    CHECK(cudaGetLastError());
  }
  void verify(const char* what) const {
    CHECK(cudaDeviceSynchronize());
    unsigned got = 0;
    CHECK(cudaMemcpy(&got, wrong, sizeof(got), cudaMemcpyDeviceToHost));
    if (got == 0)
      return;
    std::printf("%s: %u words are not those of earlier work\n", what, got);
    std::exit(1);
  }
};

void down_and_up(const fixture& x, std::uint32_t* host) {
  x.make(1000, x.one, x.s);
  CHECK(cudaMemcpyAsync(host, x.one, size, cudaMemcpyDeviceToHost, x.s));
  CHECK(cudaMemcpyAsync(x.two, host, size, cudaMemcpyHostToDevice, x.s));
  x.expect(1000, x.s);
  x.verify("down and up in one stream");
  x.make(2000, x.one, x.s);
  CHECK(cudaMemcpyAsync(host, x.one, size, cudaMemcpyDeviceToHost, x.s));
  CHECK(cudaEventRecord(x.event, x.s));
  CHECK(cudaStreamWaitEvent(x.t, x.event, 0));
  CHECK(cudaMemcpyAsync(x.two, host, size, cudaMemcpyHostToDevice, x.t));
  x.expect(2000, x.t);
  x.verify("down in one stream, up in another");
  x.make(3000, x.one, x.t);
  CHECK(cudaMemcpyAsync(host, x.one, size, cudaMemcpyDeviceToHost, x.t));
  CHECK(cudaMemcpy(x.two, host, size, cudaMemcpyHostToDevice));
  x.expect(3000, nullptr);
  x.verify("down in a blocking stream, up by a call that waits");
}

void functions(const fixture& x, std::uint32_t* host) {
  host_part in{host, 4000}, out{host, 5000};
  CHECK(cudaLaunchHostFunc(x.s, write_part, &in));
  CHECK(cudaMemcpyAsync(x.two, host, size, cudaMemcpyHostToDevice, x.s));
  x.expect(4000, x.s);
  x.make(5000, x.one, x.s);
  CHECK(cudaMemcpyAsync(host, x.one, size, cudaMemcpyDeviceToHost, x.s));
  CHECK(cudaLaunchHostFunc(x.s, read_part, &out));
  x.verify("a host function wrote it");
  EXPECT(out.right);
}

/// The program's own writes count until it lets the stream continue.
void program(const fixture& x, std::uint32_t* host) {
  std::vector<std::uint32_t> memory(n);
  auto* more = memory.data();
  CHECK(cudaHostRegister(more, size, cudaHostRegisterDefault));
  std::uint32_t* other;
  CHECK(cudaMalloc(&other, size));
  gate door;
  door.close(x.s);
  CHECK(cudaMemcpyAsync(x.two, host, size, cudaMemcpyHostToDevice, x.s));
  x.expect(6000, x.s);
  x.make(6500, x.one, x.s);
  CHECK(cudaMemcpyAsync(host, x.one, size, cudaMemcpyDeviceToHost, x.s));
  CHECK(cudaMemcpyAsync(x.two, host, size, cudaMemcpyHostToDevice, x.s));
  x.expect(6500, x.s);
  // Another stream goes on meanwhile, with copies of its own.
  x.make(1, other, x.t);
  CHECK(cudaMemcpyAsync(more, other, size, cudaMemcpyDeviceToHost, x.t));
  CHECK(cudaMemcpyAsync(other, more, size, cudaMemcpyHostToDevice, x.t));
  CHECK(cudaStreamSynchronize(x.t));
  EXPECT(more[n - 1] == n);
  host_part in{host, 6000};
  write_part(&in);
  door.open();
  x.verify("the program wrote it while the stream waited");
  CHECK(cudaHostUnregister(more));
  CHECK(cudaFree(other));
}

void waiting_for_a_word(const fixture& x, std::uint32_t* host,
                        std::uint32_t* word) {
  *word = 0;
  CHECK(cuStreamWaitValue32(x.s, reinterpret_cast<CUdeviceptr>(word), 1,
                            CU_STREAM_WAIT_VALUE_GEQ));
  CHECK(cudaMemcpyAsync(x.two, host, size, cudaMemcpyHostToDevice, x.s));
  x.expect(7000, x.s);
  host_part in{host, 7000};
  write_part(&in);
  *static_cast<volatile std::uint32_t*>(word) = 1;
  x.verify("the program wrote it before the word that the stream waits for");
}

/// A graph's nodes are host functions, copies and kernels, in a row.
void graph(const fixture& x, std::uint32_t* host) {
  host_part in{host, 8000}, out{host, 9000};
  cudaGraph_t made;
  cudaGraphExec_t exec;
  CHECK(cudaStreamBeginCapture(x.s, cudaStreamCaptureModeRelaxed));
  CHECK(cudaLaunchHostFunc(x.s, write_part, &in));
  CHECK(cudaMemcpyAsync(x.two, host, size, cudaMemcpyHostToDevice, x.s));
  x.expect(8000, x.s);
  x.make(9000, x.one, x.s);
  CHECK(cudaMemcpyAsync(host, x.one, size, cudaMemcpyDeviceToHost, x.s));
  CHECK(cudaLaunchHostFunc(x.s, read_part, &out));
  CHECK(cudaStreamEndCapture(x.s, &made));
  CHECK(cudaGraphInstantiate(&exec, made, 0));
  for (int i = 0; i < 3; ++i)
    CHECK(cudaGraphLaunch(exec, x.s));
  x.verify("a graph's host node wrote it");
  EXPECT(out.right);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(made));
}

/// Devices write pinned memory by other means than copies too.
void in_place(const fixture& x, std::uint32_t* host) {
  x.make(10000, host, x.s);
  CHECK(cudaMemcpyAsync(x.two, host, size, cudaMemcpyHostToDevice, x.s));
  x.expect(10000, x.s);
  x.verify("a kernel wrote it in place");
  CHECK(cudaMemsetAsync(host, 0x11, size, x.s));
  CHECK(cudaMemcpyAsync(x.two, host, size, cudaMemcpyHostToDevice, x.s));
  CHECK(cudaStreamSynchronize(x.s));
  std::vector<std::uint32_t> got(n);
  CHECK(cudaMemcpy(got.data(), x.two, size, cudaMemcpyDeviceToHost));
  for (auto i : got)
    EXPECT(i == 0x11111111);
  EXPECT(host[n - 1] == 0x11111111);
  CHECK(cuMemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(host),
                          reinterpret_cast<CUdeviceptr>(x.one), size, x.s));
  CHECK(cuMemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(x.two),
                          reinterpret_cast<CUdeviceptr>(host), size, x.s));
  CHECK(cudaStreamSynchronize(x.s));
  EXPECT(std::memcmp(host, got.data(), size) != 0);
}

/// Memory may be freed, and objects destroyed, right after the calls.
void frees(const fixture& x, std::uint32_t* host) {
  host_part in{host, 11000};
  std::uint32_t* device;
  CHECK(cudaMalloc(&device, size));
  CHECK(cudaLaunchHostFunc(x.s, write_part, &in));
  CHECK(cudaMemcpyAsync(device, host, size, cudaMemcpyHostToDevice, x.s));
  CHECK(cudaMemcpyAsync(x.two, device, size, cudaMemcpyDeviceToDevice, x.s));
  x.expect(11000, x.s);
  CHECK(cudaFree(device));
  x.verify("the target was freed after the call");
}

/// More streams than a GPU has channels wait for functions and copies.
void many_streams(const fixture& x, std::uint32_t* host) {
  constexpr int count = 24, part = n / count;
  cudaStream_t streams[count];
  host_part all{host, 12000};
  write_part(&all);
  gate door;
  for (auto& s : streams)
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CHECK(cudaMemset(x.two, 0, size));
  for (int round = 0; round < 3; ++round)
    for (int i = 0; i < count; ++i) {
      door.close(streams[i]);
      CHECK(cudaMemcpyAsync(x.two + i * part, host + i * part,
                            part * sizeof(*host), cudaMemcpyHostToDevice,
                            streams[i]));
      door.open();
    }
  for (auto& s : streams) {
    CHECK(cudaStreamSynchronize(s));
    CHECK(cudaStreamDestroy(s));
  }
  x.expect(12000, x.s);
  x.verify("many streams");
}

void all(const fixture& x, std::uint32_t* host) {
  down_and_up(x, host);
  functions(x, host);
  program(x, host);
  waiting_for_a_word(x, host, host + n);
  graph(x, host);
  frees(x, host);
  many_streams(x, host);
}

int main() {
  {
    fixture x;
    std::uint32_t* pinned;
    CHECK(cudaMallocHost(&pinned, size + 64));
    all(x, pinned);
    in_place(x, pinned);
    CHECK(cudaFreeHost(pinned));
    // It begins anywhere in a page.
    std::vector<std::uint32_t> plain(n + 16 + 1024);
    CHECK(cudaHostRegister(plain.data() + 16, size + 64,
                           cudaHostRegisterDefault));
    all(x, plain.data() + 16);
    CHECK(cudaHostUnregister(plain.data() + 16));
  }
  std::printf("ok\n");
}
