// nvcc: -lcuda
// Links separate PTX at run time: functions and variables across parts, files,
// logs, and refused inputs.
#include "../check.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <unistd.h>

const std::string head = ".version 7.8\n.target sm_75\n.address_size 64\n";

// Contains a function, a variable, and a helper that each part has under the
// same name.
const std::string library = head + R"(
.visible .global .align 4 .u32 offset = 100;
.func (.param .b32 r) helper(.param .b32 x) {
  .reg .b32 %a;
  ld.param.b32 %a, [x];
  add.s32 %a, %a, %a;
  st.param.b32 [r], %a;
  ret;
}
.visible .func (.param .b32 r) twice(.param .b32 x) {
  .reg .b32 %a;
  ld.param.b32 %a, [x];
  {
    .param .b32 in;
    .param .b32 out;
    st.param.b32 [in], %a;
    call (out), helper, (in);
    ld.param.b32 %a, [out];
  }
  st.param.b32 [r], %a;
  ret;
}
)";

const std::string program = head + R"(
.extern .global .align 4 .u32 offset;
.extern .func (.param .b32 r) twice(.param .b32 x);
.func (.param .b32 r) helper(.param .b32 x) {
  .reg .b32 %a;
  ld.param.b32 %a, [x];
  add.s32 %a, %a, 1;
  st.param.b32 [r], %a;
  ret;
}
.visible .entry work(.param .u64 at) {
  .reg .b64 %p;
  .reg .b32 %v, %o;
  ld.param.u64 %p, [at];
  cvta.to.global.u64 %p, %p;
  ld.global.b32 %v, [%p];
  {
    .param .b32 in;
    .param .b32 out;
    st.param.b32 [in], %v;
    call (out), twice, (in);
    ld.param.b32 %v, [out];
  }
  {
    .param .b32 in;
    .param .b32 out;
    st.param.b32 [in], %v;
    call (out), helper, (in);
    ld.param.b32 %v, [out];
  }
  ld.global.b32 %o, [offset];
  add.s32 %v, %v, %o;
  st.global.b32 [%p], %v;
  ret;
}
)";

struct linker {
  char errors[2048];
  char infos[2048];
  CUjit_option options[4] = {
      CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
      CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES};
  void* values[4] = {errors, reinterpret_cast<void*>(sizeof errors), infos,
                     reinterpret_cast<void*>(sizeof infos)};
  CUlinkState state = nullptr;

  linker() {
    std::memset(errors, 'x', sizeof errors);
    CHECK(cuLinkCreate(4, options, values, &state));
  }
  ~linker() { CHECK(cuLinkDestroy(state)); }

  CUresult add(const std::string& text) {
    return cuLinkAddData(state, CU_JIT_INPUT_PTX,
                         const_cast<char*>(text.c_str()), text.size() + 1,
                         "part", 0, nullptr, nullptr);
  }
};

int run(CUmodule module, int value) {
  CUfunction work;
  CHECK(cuModuleGetFunction(&work, module, "work"));
  int* x = nullptr;
  CHECK(cudaMalloc(&x, sizeof value));
  CHECK(cudaMemcpy(x, &value, sizeof value, cudaMemcpyHostToDevice));
  void* parameters[] = {&x};
  CHECK(
      cuLaunchKernel(work, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  CHECK(cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(x));
  return value;
}

void from_memory() {
  linker l;
  CHECK(l.add(library));
  CHECK(l.add(program));
  void* image = nullptr;
  size_t bytes = 0;
  CHECK(cuLinkComplete(l.state, &image, &bytes));
  EXPECT(image != nullptr && bytes > 0);
  EXPECT(l.errors[0] == '\0' && l.values[1] == nullptr);
  CUmodule module;
  CHECK(cuModuleLoadData(&module, image));
  EXPECT(run(module, 20) == 20 * 2 + 1 + 100);
  CUdeviceptr offset = 0;
  CHECK(cuModuleGetGlobal(&offset, nullptr, module, "offset"));
  CHECK(cuMemsetD32(offset, 7, 1));
  EXPECT(run(module, 1) == 2 + 1 + 7);

  // A copy of the image works too, and outlives its link.
  std::vector<char> copy(static_cast<char*>(image),
                         static_cast<char*>(image) + bytes);
  CUmodule again;
  CHECK(cuModuleLoadDataEx(&again, copy.data(), 0, nullptr, nullptr));
  EXPECT(run(again, 2) == 4 + 1 + 100);
  CHECK(cuModuleUnload(again));
  CHECK(cuModuleUnload(module));
}

void from_files() {
  char path[] = "/tmp/vgpu-link-XXXXXX";
  int fd = mkstemp(path);
  EXPECT(fd >= 0 && write(fd, library.data(), library.size()) ==
                        static_cast<ssize_t>(library.size()));
  close(fd);
  linker l;
  CHECK(cuLinkAddFile(l.state, CU_JIT_INPUT_PTX, path, 0, nullptr, nullptr));
  unlink(path);
  CHECK(l.add(program));
  EXPECT(cuLinkAddFile(l.state, CU_JIT_INPUT_PTX, "/nowhere/part.ptx", 0,
                       nullptr, nullptr) == CUDA_ERROR_FILE_NOT_FOUND);
  void* image = nullptr;
  CHECK(cuLinkComplete(l.state, &image, nullptr));
  CUlibrary as_library;
  CHECK(cuLibraryLoadData(&as_library, image, nullptr, nullptr, 0, nullptr,
                          nullptr, 0));
  CUmodule module;
  CHECK(cuLibraryGetModule(&module, as_library));
  EXPECT(run(module, 5) == 10 + 1 + 100);
  CHECK(cuLibraryUnload(as_library));
}

void wrong() {
  {
    linker l; // calls an undefined function
    CHECK(l.add(program));
    void* image = nullptr;
    EXPECT(cuLinkComplete(l.state, &image, nullptr) != CUDA_SUCCESS);
    EXPECT(std::strlen(l.errors) > 0);
    EXPECT(reinterpret_cast<size_t>(l.values[1]) > 0);
  }
  {
    // A duplicate definition is reported at completion at the latest.
    linker l;
    CHECK(l.add(library));
    void* image = nullptr;
    if (l.add(library) == CUDA_SUCCESS)
      EXPECT(cuLinkComplete(l.state, &image, nullptr) != CUDA_SUCCESS);
    EXPECT(std::strlen(l.errors) > 0);
  }
  {
    linker l;
    EXPECT(l.add("no PTX at all") != CUDA_SUCCESS);
    EXPECT(cuLinkAddData(l.state, CU_JIT_INPUT_PTX, nullptr, 5, nullptr, 0,
                         nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  }
  // The log of loading a module also names the error.
  linker l;
  l.values[1] = reinterpret_cast<void*>(sizeof l.errors);
  std::string broken = head + ".visible .entry k() { nonsense.s32; ret; }\n";
  CUmodule module;
  EXPECT(cuModuleLoadDataEx(&module, broken.c_str(), 2, l.options, l.values) ==
         CUDA_ERROR_INVALID_PTX);
  EXPECT(std::strlen(l.errors) > 0);
}

int main() {
  CHECK(cudaFree(nullptr));
  from_memory();
  from_files();
  wrong();
  std::printf("ok\n");
}
