// nvcc: -lcuda
// Options of the compiler and linker at run time: those that change code, those
// that are answered, and those that are refused.
#include "../check.hpp"

#include <cstdint>
#include <cstring>
#include <string>

namespace {

const std::string head = ".version 7.8\n.target sm_75\n.address_size 64\n";

/// A kernel that keeps sixty values alive.
std::string busy() {
  auto out = head + ".visible .entry busy(.param .u64 to)\n{\n.reg .b64 %p;\n"
                    ".reg .b32 %r<61>;\nld.param.u64 %p, [to];\n"
                    "cvta.to.global.u64 %p, %p;\n";
  for (int i = 0; i < 60; ++i)
    out += "ld.global.b32 %r" + std::to_string(i) + ", [%p+" +
           std::to_string(4 * i) + "];\n";
  for (int i = 59; i > 0; --i)
    out += "mad.lo.s32 %r0, %r0, %r" + std::to_string(i) + ", %r" +
           std::to_string(60 - i) + ";\n";
  return out + "st.global.b32 [%p], %r0;\nret;\n}\n";
}

const std::string calls_away = head + R"(
.extern .func (.param .b32 r) away(.param .b32 x);
.visible .entry user(.param .u64 to)
{
  .reg .b64 %p;
  .reg .b32 %v;
  ld.param.u64 %p, [to];
  cvta.to.global.u64 %p, %p;
  ld.global.b32 %v, [%p];
  {
    .param .b32 in;
    .param .b32 out;
    st.param.b32 [in], %v;
    call (out), away, (in);
    ld.param.b32 %v, [out];
  }
  st.global.b32 [%p], %v;
  ret;
}
)";

const std::string faulty = head +
                           ".visible .entry faulty()\n{\n.reg .u32 %r<3>;\n"
                           "add.u32 %r1, %r2, %never_declared;\nret;\n}\n";

void* number(std::uintptr_t x) {
  return reinterpret_cast<void*>(x);
}

int registers(CUmodule module) {
  CUfunction f;
  int out = 0;
  CHECK(cuModuleGetFunction(&f, module, "busy"));
  CHECK(cuFuncGetAttribute(&out, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
  return out;
}

struct logs {
  char info[4096] = "";
  char error[4096] = "";
  CUjit_option options[6] = {
      CU_JIT_INFO_LOG_BUFFER,  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
      CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
      CU_JIT_LOG_VERBOSE,      CU_JIT_WALL_TIME};
  void* values[6] = {info,      number(sizeof info),
                     error,     number(sizeof error),
                     number(1), nullptr};

  float milliseconds() const {
    float out;
    std::memcpy(&out, &values[5], sizeof out);
    return out;
  }
};

void of_modules() {
  CUmodule module;
  CHECK(cuModuleLoadData(&module, busy().c_str()));
  EXPECT(registers(module) > 32);
  CHECK(cuModuleUnload(module));
  CUjit_option option = CU_JIT_MAX_REGISTERS;
  void* value = number(32);
  CHECK(cuModuleLoadDataEx(&module, busy().c_str(), 1, &option, &value));
  EXPECT(registers(module) <= 32);
  CHECK(cuModuleUnload(module));

  logs told;
  CHECK(cuModuleLoadDataEx(&module, busy().c_str(), 6, told.options,
                           told.values));
  // A driver may take what it compiled before, and then says nothing.
  EXPECT(told.info[0] == '\0' || std::strstr(told.info, "busy") != nullptr);
  EXPECT(told.values[1] == number(std::strlen(told.info)) ||
         told.values[1] == number(std::strlen(told.info) + 1));
  EXPECT(told.error[0] == '\0');
  EXPECT(told.milliseconds() >= 0 && told.milliseconds() < 60000);
  CHECK(cuModuleUnload(module));
}

void of_libraries() {
  CUlibrary library;
  CUmodule module;
  CUjit_option option = CU_JIT_MAX_REGISTERS;
  void* value = number(32);
  CHECK(cuLibraryLoadData(&library, busy().c_str(), &option, &value, 1, nullptr,
                          nullptr, 0));
  CHECK(cuLibraryGetModule(&module, library));
  EXPECT(registers(module) <= 32);
  CHECK(cuLibraryUnload(library));
}

CUresult add(CUlinkState to, const std::string& text) {
  return cuLinkAddData(to, CU_JIT_INPUT_PTX, const_cast<char*>(text.c_str()),
                       text.size() + 1, "part", 0, nullptr, nullptr);
}

void of_links() {
  { // A part that cannot be compiled is told when it is added.
    logs told;
    CUlinkState link;
    CHECK(cuLinkCreate(6, told.options, told.values, &link));
    EXPECT(add(link, faulty) == CUDA_ERROR_INVALID_PTX);
    EXPECT(std::strstr(told.error, "never_declared") != nullptr);
    EXPECT(told.values[3] != nullptr);
    CHECK(cuLinkDestroy(link));
  }
  { // A part that lacks another one is told at the end.
    logs told;
    CUlinkState link;
    void* image;
    CHECK(cuLinkCreate(6, told.options, told.values, &link));
    CHECK(add(link, calls_away));
    EXPECT(cuLinkComplete(link, &image, nullptr) != CUDA_SUCCESS);
    EXPECT(std::strstr(told.error, "away") != nullptr);
    CHECK(cuLinkDestroy(link));
  }
  // The linker's options act on the image.
  CUlinkState link;
  CUjit_option options[] = {CU_JIT_MAX_REGISTERS, CU_JIT_WALL_TIME};
  void* values[] = {number(32), nullptr};
  CHECK(cuLinkCreate(2, options, values, &link));
  CHECK(add(link, busy()));
  void* image;
  CHECK(cuLinkComplete(link, &image, nullptr));
  CUmodule module;
  CHECK(cuModuleLoadData(&module, image));
  EXPECT(registers(module) <= 32);
  CHECK(cuModuleUnload(module));
  CHECK(cuLinkDestroy(link));
}

void refused() {
  CUmodule module;
  CUlinkState link;
  CUlibrary library;
  auto code = [&](CUjit_option option, std::uintptr_t x) {
    void* value = number(x);
    return cuModuleLoadDataEx(&module, busy().c_str(), 1, &option, &value);
  };
  EXPECT(code(static_cast<CUjit_option>(CU_JIT_NUM_OPTIONS + 5), 0) ==
         CUDA_ERROR_INVALID_VALUE);
  CUjit_option both[] = {CU_JIT_TARGET, CU_JIT_THREADS_PER_BLOCK};
  void* values[] = {number(CU_TARGET_COMPUTE_90), number(128)};
  EXPECT(cuModuleLoadDataEx(&module, busy().c_str(), 2, both, values) ==
         CUDA_ERROR_INVALID_VALUE);
  CUjit_option fallback = CU_JIT_FALLBACK_STRATEGY;
  void* strategy = number(CU_PREFER_PTX);
  EXPECT(cuLinkCreate(1, &fallback, &strategy, &link) ==
         CUDA_ERROR_INVALID_VALUE);
  CUlibraryOption preserved = CU_LIBRARY_BINARY_IS_PRESERVED;
  void* yes = number(1);
  auto from_file = [&](const char* name) {
    return cuLibraryLoadFromFile(&library, name, nullptr, nullptr, 0,
                                 &preserved, &yes, 1);
  };
  EXPECT(from_file("/nowhere") == CUDA_ERROR_FILE_NOT_FOUND);
  EXPECT(from_file("/proc/self/exe") == CUDA_ERROR_INVALID_VALUE);
}

} // namespace

int main() {
  CHECK(cudaFree(nullptr));
  of_modules();
  of_libraries();
  of_links();
  refused();
  std::puts("ok");
}
