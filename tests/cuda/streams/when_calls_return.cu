// nvcc: -lcuda
//
// Which calls wait for the work before them: fills of each kind of memory,
// copies on the device, and calls beside each kind of stream. (The answers are
// those of driver 580 on an H200, and of CUDA's pages on synchronisation.)
#include "../gate.hpp"

#include <cstring>
#include <string>

extern "C" {
CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void* from, size_t bytes);
CUresult cuMemsetD8_v2_ptds(CUdeviceptr to, unsigned char what, size_t bytes);
}

constexpr std::size_t size = 1 << 16;

gate door;
cudaStream_t stream;

CUdeviceptr address(const void* x) {
  return reinterpret_cast<CUdeviceptr>(x);
}

/// Ends the program with 1 unless the call does what is expected while `in` is
/// held up.
template <class Call>
void behind(cudaStream_t in, does what, const std::string& name,
            const Call& call) {
  door.close(in);
  expect(door, what, name.c_str(), call);
  door.open();
  CHECK(cudaDeviceSynchronize());
}

/// Fills with every width and shape. Host memory must hold the new bytes as
/// soon as a call has returned that waits.
void fills(const char* kind, unsigned char* at, does what) {
  auto seen = what == does::waits;
  auto fill = [&](const char* form, std::size_t bytes, unsigned char value,
                  auto call) {
    auto name = std::string{form} + " of " + kind + " memory";
    door.close(stream);
    expect(door, what, name.c_str(), call);
    for (std::size_t i = 0; seen && i < bytes; ++i)
      if (at[i] != value) {
        std::printf("%s: byte %zu is old\n", name.c_str(), i);
        door.open();
        std::exit(1);
      }
    door.open();
    CHECK(cudaDeviceSynchronize());
  };
  auto to = address(at);
  auto pitch = size / 4;
  fill("cudaMemset", size, 1, [&] { CHECK(cudaMemset(at, 1, size)); });
  fill("cudaMemset2D", size, 2,
       [&] { CHECK(cudaMemset2D(at, pitch, 2, pitch, 4)); });
  fill("cudaMemset3D", size, 3, [&] {
    CHECK(cudaMemset3D(make_cudaPitchedPtr(at, pitch, pitch, 2), 3,
                       make_cudaExtent(pitch, 2, 2)));
  });
  fill("cuMemsetD8", 100, 4, [&] { CHECK(cuMemsetD8(to, 4, 100)); });
  fill("cuMemsetD16", 100, 5, [&] { CHECK(cuMemsetD16(to, 0x0505, 50)); });
  fill("cuMemsetD32", 100, 6, [&] { CHECK(cuMemsetD32(to, 0x06060606, 25)); });
  fill("cuMemsetD2D8", 100, 7,
       [&] { CHECK(cuMemsetD2D8(to, pitch, 7, 100, 2)); });
  fill("cuMemsetD2D16", 100, 8,
       [&] { CHECK(cuMemsetD2D16(to, pitch, 0x0808, 50, 2)); });
  fill("cuMemsetD2D32", 100, 9,
       [&] { CHECK(cuMemsetD2D32(to, pitch, 0x09090909, 25, 2)); });
}

void fills_in_streams(const char* kind, unsigned char* at) {
  auto name = std::string{" of "} + kind + " memory";
  auto to = address(at);
  auto fill = [&](const char* form, auto call) {
    behind(stream, does::returns, form + name, call);
  };
  fill("cudaMemsetAsync", [&] { CHECK(cudaMemsetAsync(at, 1, size, stream)); });
  fill("cuMemsetD8Async", [&] { CHECK(cuMemsetD8Async(to, 1, size, stream)); });
  fill("cuMemsetD16Async",
       [&] { CHECK(cuMemsetD16Async(to, 1, size / 2, stream)); });
  fill("cuMemsetD32Async",
       [&] { CHECK(cuMemsetD32Async(to, 1, size / 4, stream)); });
  fill("cudaMemset2DAsync",
       [&] { CHECK(cudaMemset2DAsync(at, 256, 1, 256, 4, stream)); });
  fill("cudaMemset3DAsync", [&] {
    CHECK(cudaMemset3DAsync(make_cudaPitchedPtr(at, 256, 256, 2), 1,
                            make_cudaExtent(256, 2, 2), stream));
  });
}

void copies(unsigned char* device, unsigned char* pinned,
            unsigned char* managed) {
  auto half = size / 2;
  behind(stream, does::returns, "a copy on the device", [&] {
    CHECK(cudaMemcpy(device, device + half, half, cudaMemcpyDeviceToDevice));
  });
  behind(stream, does::waits, "cuMemcpyDtoD to pinned memory",
         [&] { CHECK(cuMemcpyDtoD(address(pinned), address(device), size)); });
  behind(stream, does::waits, "cuMemcpyDtoD from pinned memory",
         [&] { CHECK(cuMemcpyDtoD(address(device), address(pinned), size)); });
  behind(stream, does::waits, "cuMemcpyDtoD within pinned memory", [&] {
    CHECK(cuMemcpyDtoD(address(pinned), address(pinned + half), half));
  });
  behind(stream, does::waits, "a copy to managed memory",
         [&] { CHECK(cudaMemcpy(managed, device, size, cudaMemcpyDefault)); });
  behind(stream, does::waits, "a copy from managed memory",
         [&] { CHECK(cudaMemcpy(device, managed, size, cudaMemcpyDefault)); });
}

/// Calls without a stream, beside each kind of stream: the legacy stream waits
/// for blocking streams, a thread's own stream only for the legacy one.
void streams(unsigned char* device, unsigned char* pinned) {
  cudaStream_t apart;
  CHECK(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));
  static unsigned char plain[size];
  struct {
    const char* name;
    cudaStream_t stream;
    does legacy, own;
  } const all[] = {
      {"a blocking stream", stream, does::waits, does::returns},
      {"a non-blocking stream", apart, does::returns, does::returns},
      {"the legacy stream", cudaStreamLegacy, does::waits, does::waits},
      {"the thread's own stream", cudaStreamPerThread, does::waits,
       does::waits},
  };
  // Makes the thread's own stream, which would wait for the others later.
  CHECK(cudaMemsetAsync(device, 0, size, cudaStreamPerThread));
  CHECK(cudaDeviceSynchronize());
  for (auto& x : all) {
    auto name = [&](const char* call) {
      return std::string{call} + " beside " + x.name;
    };
    for (auto* from : {plain, pinned}) {
      behind(x.stream, x.legacy, name("cuMemcpyHtoD"),
             [&] { CHECK(cuMemcpyHtoD(address(device), from, size)); });
      // A driver stages pageable memory once the thread's own stream is done.
      auto staged = from == plain && x.stream == cudaStreamLegacy;
      behind(x.stream, staged ? does::either : x.own,
             name("cuMemcpyHtoD of a thread"),
             [&] { CHECK(cuMemcpyHtoD_v2_ptds(address(device), from, size)); });
    }
    behind(x.stream, x.legacy, name("cuMemcpyDtoH"),
           [&] { CHECK(cuMemcpyDtoH(plain, address(device), size)); });
    behind(x.stream, x.legacy, name("cuMemsetD8 of pinned memory"),
           [&] { CHECK(cuMemsetD8(address(pinned), 1, size)); });
    behind(x.stream, x.own, name("cuMemsetD8 of pinned memory, of a thread"),
           [&] { CHECK(cuMemsetD8_v2_ptds(address(pinned), 2, size)); });
    behind(x.stream, x.legacy, name("cudaStreamSynchronize(0)"),
           [&] { CHECK(cudaStreamSynchronize(nullptr)); });
    behind(x.stream, does::waits, name("cudaDeviceSynchronize"),
           [&] { CHECK(cudaDeviceSynchronize()); });
  }
  CHECK(cudaStreamDestroy(apart));
}

/// What a call has waited for is seen by the program.
void seen(unsigned char* device, unsigned char* pinned) {
  cudaEvent_t event;
  CHECK(cudaEventCreate(&event));
  static unsigned char plain[size];
  for (auto* from : {plain, pinned}) {
    door.close(stream);
    CHECK(cudaMemsetAsync(pinned + size, 5, size, stream));
    CHECK(cudaEventRecord(event, stream));
    expect(door, does::waits, "a copy to the device",
           [&] { CHECK(cuMemcpyHtoD(address(device), from, size)); });
    CHECK(cudaEventQuery(event));
    CHECK(cudaStreamQuery(stream));
    for (std::size_t i = 0; i < size; ++i)
      EXPECT(pinned[size + i] == 5);
    std::memset(pinned + size, 0, size);
  }
  CHECK(cudaEventDestroy(event));
}

int main() {
  unsigned char *device, *pinned, *managed;
  CHECK(cudaMalloc(&device, size));
  CHECK(cudaMallocHost(&pinned, 2 * size));
  CHECK(cudaMallocManaged(&managed, size));
  CHECK(cudaStreamCreate(&stream));
  fills("device", device, does::returns);
  fills("pinned", pinned, does::waits);
  fills("managed", managed, does::waits);
  fills_in_streams("device", device);
  fills_in_streams("pinned", pinned);
  fills_in_streams("managed", managed);
  copies(device, pinned, managed);
  streams(device, pinned);
  seen(device, pinned);
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(device));
  CHECK(cudaFree(managed));
  CHECK(cudaFreeHost(pinned));
  std::printf("ok\n");
}
