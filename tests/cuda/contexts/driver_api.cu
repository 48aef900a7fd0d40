// Uses only the driver API: a module from PTX text, both ways of passing
// parameters, a module's global variable.
// nvcc: -lcuda
#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <vector>

static const char* ptx = R"(
.version 7.0
.target sm_75
.address_size 64

.visible .global .align 4 .u32 bias = 5;

.visible .entry scale(.param .u64 data, .param .u32 count, .param .u32 factor)
{
  .reg .pred %p;
  .reg .b32 %r<8>;
  .reg .b64 %d<4>;
  ld.param.u64 %d0, [data];
  ld.param.u32 %r0, [count];
  ld.param.u32 %r1, [factor];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p, %r5, %r0;
  @%p bra done;
  cvta.to.global.u64 %d1, %d0;
  mul.wide.u32 %d2, %r5, 4;
  add.u64 %d3, %d1, %d2;
  ld.global.u32 %r6, [%d3];
  ld.global.u32 %r7, [bias];
  mad.lo.u32 %r6, %r6, %r1, %r7;
  st.global.u32 [%d3], %r6;
done:
  ret;
}
)";

static void check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS)
    return;
  const char* name = "?";
  cuGetErrorName(result, &name);
  std::printf("%s: %s\n", call, name);
  std::exit(1);
}
#define CHECK(call) check(call, #call)

int main() {
  CHECK(cuInit(0));
  CUdevice device;
  CHECK(cuDeviceGet(&device, 0));
  char name[100];
  CHECK(cuDeviceGetName(name, sizeof name, device));
  std::printf("on %s\n", name);
  CUcontext context;
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));

  CUmodule module;
  CHECK(cuModuleLoadData(&module, ptx));
  CUfunction scale;
  CHECK(cuModuleGetFunction(&scale, module, "scale"));
  CUdeviceptr bias;
  size_t bias_size = 0;
  CHECK(cuModuleGetGlobal(&bias, &bias_size, module, "bias"));
  unsigned read_bias = 0;
  CHECK(cuMemcpyDtoH(&read_bias, bias, sizeof read_bias));
  if (bias_size != 4 || read_bias != 5) {
    std::printf("bias: %zu bytes, value %u\n", bias_size, read_bias);
    return 1;
  }

  unsigned n = 10000, factor = 3;
  std::vector<unsigned> data(n);
  for (unsigned i = 0; i < n; ++i)
    data[i] = i;
  CUdeviceptr dev;
  CHECK(cuMemAlloc(&dev, n * sizeof(unsigned)));
  CHECK(cuMemcpyHtoD(dev, data.data(), n * sizeof(unsigned)));
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

  void* parameters[] = {&dev, &n, &factor};
  CHECK(cuLaunchKernel(scale, (n + 127) / 128, 1, 1, 128, 1, 1, 0, stream,
                       parameters, nullptr));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuMemsetD32(bias, 7, 1));
  struct {
    CUdeviceptr data;
    unsigned count, factor;
  } packed = {dev, n, 2};
  size_t packed_size = sizeof packed;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed,
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &packed_size,
                   CU_LAUNCH_PARAM_END};
  CHECK(cuLaunchKernel(scale, (n + 127) / 128, 1, 1, 128, 1, 1, 0, stream,
                       nullptr, extra));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuMemcpyDtoH(data.data(), dev, n * sizeof(unsigned)));
  for (unsigned i = 0; i < n; ++i) {
    if (data[i] != (i * 3 + 5) * 2 + 7) {
      std::printf("%u: %u\n", i, data[i]);
      return 1;
    }
  }
  CHECK(cuStreamDestroy(stream));
  CHECK(cuMemFree(dev));
  CHECK(cuModuleUnload(module));
  CHECK(cuDevicePrimaryCtxRelease(device));
  std::printf("ok\n");
}
