// nvcc: -lcuda
//
// Copies whose bytes come late arrive while other threads make the driver wait
// for all streams: they pin memory, load code and free memory. The argument is
// the size of a copy in MiB.
#include "../gate.hpp"

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <vector>

std::size_t size = std::size_t{16} << 20;
constexpr int rounds = 4;

/// Loads code of its own and launches its kernel in a side stream.
void load_and_launch() {
  const char* text = ".version 7.0\n.target sm_50\n.address_size 64\n"
                     ".visible .entry set(.param .u64 to) {\n"
                     "  .reg .b64 %rd<3>;\n"
                     "  .reg .b32 %r<2>;\n"
                     "  ld.param.u64 %rd1, [to];\n"
                     "  cvta.to.global.u64 %rd2, %rd1;\n"
                     "  mov.u32 %r1, 7;\n"
                     "  st.global.u32 [%rd2], %r1;\n"
                     "  ret;\n}\n";
  CUlibrary library;
  CUkernel kernel;
  CHECK(cuLibraryLoadData(&library, text, nullptr, nullptr, 0, nullptr, nullptr,
                          0));
  CHECK(cuLibraryGetKernel(&kernel, library, "set"));
  unsigned *on_device, got = 0;
  cudaStream_t side;
  CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  CHECK(cudaMalloc(&on_device, sizeof(unsigned)));
  void* arguments[] = {&on_device};
  CHECK(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1,
                       0, side, arguments, nullptr));
  CHECK(cudaMemcpyAsync(&got, on_device, sizeof got, cudaMemcpyDeviceToHost,
                        side));
  CHECK(cudaStreamSynchronize(side));
  EXPECT(got == 7);
  CHECK(cudaFree(on_device));
  CHECK(cudaStreamDestroy(side));
  CHECK(cuLibraryUnload(library));
}

/// Makes a driver wait in several ways.
void use_driver() {
  void* pinned;
  CHECK(cudaMallocHost(&pinned, size));
  load_and_launch();
  CHECK(cudaFreeHost(pinned));
}

/// Copies up behind a function that waits for this thread, while the other
/// thread's calls wait for the streams.
void up(unsigned char* host, unsigned char* device, cudaStream_t s,
        unsigned char value) {
  gate door;
  door.close(s);
  CHECK(cudaMemcpyAsync(device, host, size, cudaMemcpyHostToDevice, s));
  std::thread other{use_driver};
  std::fill(host, host + size, value);
  door.open();
  CHECK(cudaStreamSynchronize(s));
  other.join();
  std::vector<unsigned char> back(size);
  CHECK(cudaMemcpy(back.data(), device, size, cudaMemcpyDeviceToHost));
  EXPECT(back == std::vector<unsigned char>(size, value));
}

/// Copies down and up again, as programs that offload their memory do.
void round_trips(unsigned char* host, unsigned char* device, cudaStream_t s) {
  CHECK(cudaMemsetAsync(device, 9, size, s));
  std::thread other{use_driver};
  for (int i = 0; i < rounds; ++i) {
    CHECK(cudaMemcpyAsync(host, device, size, cudaMemcpyDeviceToHost, s));
    CHECK(cudaMemsetAsync(device, 1, size, s));
    CHECK(cudaMemcpyAsync(device, host, size, cudaMemcpyHostToDevice, s));
  }
  CHECK(cudaStreamSynchronize(s));
  other.join();
  std::vector<unsigned char> back(size);
  CHECK(cudaMemcpy(back.data(), device, size, cudaMemcpyDeviceToHost));
  EXPECT(back == std::vector<unsigned char>(size, 9));
}

int main(int count, char** words) {
  if (count > 1)
    size = std::strtoul(words[1], nullptr, 10) << 20;
  unsigned char *device, *pinned;
  std::vector<unsigned char> registered(size);
  cudaStream_t s;
  CHECK(cudaMalloc(&device, size));
  CHECK(cudaMallocHost(&pinned, size));
  CHECK(cudaHostRegister(registered.data(), size, cudaHostRegisterDefault));
  CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  for (int i = 0; i < rounds; ++i)
    for (auto* host : {pinned, registered.data()}) {
      up(host, device, s, static_cast<unsigned char>(i + 2));
      round_trips(host, device, s);
    }
  CHECK(cudaStreamDestroy(s));
  CHECK(cudaHostUnregister(registered.data()));
  CHECK(cudaFreeHost(pinned));
  CHECK(cudaFree(device));
  std::printf("ok\n");
}
