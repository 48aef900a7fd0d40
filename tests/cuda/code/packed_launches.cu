// nvcc: -lcuda -Xcompiler -Wno-deprecated-declarations
// Launches of CUDA 3: the function keeps its block's shape and its parameters.
#include "../check.hpp"

#include <vector>

namespace {

const char* text = R"(.version 7.8
.target sm_75
.address_size 64
.visible .entry scale(.param .u64 to, .param .f32 by, .param .u32 add)
{
  .reg .b64 %p, %o;
  .reg .b32 %i, %n, %b, %a, %v;
  .reg .f32 %f, %s;
  ld.param.u64 %p, [to];
  ld.param.f32 %s, [by];
  ld.param.u32 %a, [add];
  cvta.to.global.u64 %p, %p;
  mov.u32 %b, %ctaid.x;
  mov.u32 %n, %ntid.x;
  mov.u32 %i, %tid.x;
  mad.lo.u32 %i, %b, %n, %i;
  mul.wide.u32 %o, %i, 4;
  add.u64 %p, %p, %o;
  cvt.rn.f32.u32 %f, %i;
  mul.f32 %f, %f, %s;
  cvt.rzi.u32.f32 %v, %f;
  add.u32 %v, %v, %a;
  st.global.u32 [%p], %v;
  ret;
}
)";

constexpr int threads = 32, blocks = 4;

void expect(unsigned* from, float by, unsigned add, int count) {
  std::vector<unsigned> got(count);
  CHECK(cudaMemcpy(got.data(), from, count * sizeof(unsigned),
                   cudaMemcpyDeviceToHost));
  for (int i = 0; i < count; ++i)
    EXPECT(got[i] == static_cast<unsigned>(i * by) + add);
}

} // namespace

int main() {
  CHECK(cudaFree(nullptr));
  CUmodule module;
  CUfunction scale;
  CUstream stream;
  unsigned* out;
  CHECK(cuModuleLoadData(&module, text));
  CHECK(cuModuleGetFunction(&scale, module, "scale"));
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cudaMalloc(&out, threads * blocks * sizeof *out));

  CHECK(cuFuncSetBlockShape(scale, threads, 1, 1));
  CHECK(cuFuncSetSharedSize(scale, 0));
  CHECK(cuParamSetSize(scale, 16));
  CHECK(cuParamSetv(scale, 0, &out, sizeof out));
  CHECK(cuParamSetf(scale, 8, 2.0f));
  CHECK(cuParamSeti(scale, 12, 5));
  CHECK(cuLaunchGrid(scale, blocks, 1));
  CHECK(cudaDeviceSynchronize());
  expect(out, 2, 5, threads * blocks);
  // The function keeps its parameters for the next launch.
  CHECK(cuParamSeti(scale, 12, 9));
  CHECK(cuLaunchGridAsync(scale, blocks, 1, stream));
  CHECK(cuStreamSynchronize(stream));
  expect(out, 2, 9, threads * blocks);
  CHECK(cuParamSetf(scale, 8, 3.0f));
  CHECK(cuLaunch(scale));
  CHECK(cudaDeviceSynchronize());
  expect(out, 3, 9, threads);
  CHECK(cuModuleUnload(module));
  std::puts("ok");
}
