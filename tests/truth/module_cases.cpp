// Modules, libraries, kernels, and their attributes.
#include "truth_case.hpp"

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

namespace vgpu::test {

namespace {

constexpr auto broken = ".version 7.0\n.target sm_75\n.address_size 64\n"
                        ".visible .entry k() { no_such_instruction; }\n";
constexpr auto from_the_future =
    ".version 99.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry k() { ret; }\n";
constexpr auto of_no_device = ".version 7.0\n.target sm_999\n.address_size 64\n"
                              ".visible .entry k() { ret; }\n";
constexpr auto two_parameters =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry k(.param .u64 a, .param .u32 b) { ret; }\n";
constexpr auto garbage = "this is neither PTX nor a cubin";

void bad_images(report& out) {
  use_device();
  CUmodule module = nullptr;
  for (const char* image : {garbage, "", static_cast<const char*>(nullptr),
                            broken, from_the_future, of_no_device})
    out << cuModuleLoadData(&module, image);
  out << cuModuleLoad(&module, "");
}

void names(report& out) {
  use_device();
  auto module = load_kernels();
  CUfunction function = nullptr;
  CUdeviceptr p = 0;
  size_t size = 0;
  out << cuModuleGetFunction(&function, module, "unknown")
      << cuModuleGetFunction(&function, module, nullptr)
      << cuModuleGetFunction(&function, module, "")
      << cuModuleGetGlobal(&p, &size, module, "unknown")
      << cuModuleGetGlobal(&p, nullptr, module, "table")
      << cuModuleGetGlobal(&p, &size, module, "store")
      << cuModuleGetGlobal(nullptr, &size, module, "table") << "size"
      << static_cast<long long>(size);
}

void unload_in_capture(report& out) {
  use_device();
  CUstream stream = nullptr;
  require(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  for (auto mode :
       {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        CU_STREAM_CAPTURE_MODE_RELAXED}) {
    auto module = load_kernels();
    CUgraph graph = nullptr;
    require(cuStreamBeginCapture(stream, mode), "cuStreamBeginCapture");
    out << cuModuleUnload(module) << cuStreamEndCapture(stream, &graph);
  }
}

void loading_mode(report& out) {
  for (const auto* text : {"eager", "LAZY", "EAGER "}) {
    ::setenv("CUDA_MODULE_LOADING", text, 1);
    out << "mode";
    if (auto child = ::fork(); child != 0) {
      int status = 0;
      ::waitpid(child, &status, 0);
      continue;
    }
    CUmoduleLoadingMode mode{};
    require(cuInit(0), "cuInit");
    out << cuModuleGetLoadingMode(&mode) << static_cast<int>(mode);
    ::_exit(0);
  }
}

void compiler_options(report& out) {
  use_device();
  auto code = [&](int option, std::uintptr_t value) {
    CUmodule module = nullptr;
    auto key = std::bit_cast<CUjit_option>(option);
    auto* given = reinterpret_cast<void*>(value);
    return cuModuleLoadDataEx(&module, two_parameters, 1, &key, &given);
  };
  for (int level : {4, 5, 7, -1})
    out << code(CU_JIT_OPTIMIZATION_LEVEL, static_cast<std::uintptr_t>(level));
  out << "target" << code(CU_JIT_TARGET, 100) << code(CU_JIT_TARGET, 55)
      << "registers" << code(CU_JIT_MAX_REGISTERS, 0);
  out << "fallback" << code(CU_JIT_FALLBACK_STRATEGY, 2) << "null";
  for (int option = CU_JIT_NEW_SM3X_OPT; option <= 28; ++option)
    if (auto got = code(option, 0); got != CUDA_SUCCESS)
      out << option << got;
}

constexpr auto defines_f = ".version 7.0\n.target sm_75\n.address_size 64\n"
                           ".visible .func f() { ret; }\n";

/// Adds texts to a link, and completes it.
class link_of_texts {
public:
  explicit link_of_texts(report& out) : out_(out) {
    require(cuLinkCreate(0, nullptr, nullptr, &link_), "cuLinkCreate");
  }
  void add(std::string text) {
    out_ << cuLinkAddData(link_, CU_JIT_INPUT_PTX, text.data(), text.size() + 1,
                          "part", 0, nullptr, nullptr);
  }
  void complete() {
    size_t bytes = 0;
    out_ << cuLinkComplete(link_, &image_, &bytes);
  }
  void load() {
    CUmodule module = nullptr;
    out_ << cuModuleLoadData(&module, image_);
  }

private:
  report& out_;
  CUlinkState link_ = nullptr;
  void* image_ = nullptr;
};

void link_twice(report& out) {
  use_device();
  link_of_texts link{out};
  link.add(defines_f);
  link.complete();
  link.load();
  link.complete();
  link.add(defines_f);
}

void link_nothing(report& out) {
  use_device();
  link_of_texts of_none{out}, of_broken{out};
  of_none.complete();
  of_broken.add(broken);
  of_broken.complete();
}

void link_same_symbols(report& out) {
  use_device();
  link_of_texts link{out};
  link.add(defines_f);
  link.add(defines_f);
  link.complete();
}

void unload_twice(report& out) {
  use_device();
  auto module = load_kernels();
  out << cuModuleUnload(module) << cuModuleUnload(module);
}

void libraries(report& out) {
  use_device();
  CUlibrary library = nullptr;
  CUkernel k = nullptr;
  CUfunction function = nullptr;
  auto load = [&](const char* image) {
    return cuLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr,
                             nullptr, 0);
  };
  out << load(garbage) << load(two_parameters)
      << cuLibraryGetKernel(&k, library, "unknown")
      << cuLibraryGetKernel(&k, library, "k")
      << cuKernelGetFunction(&function, k);
  for (size_t i = 0; i < 3; ++i) {
    size_t offset = 0, size = 0;
    out << cuKernelGetParamInfo(k, i, &offset, &size);
  }
}

/// Passes a kernel where a function belongs, and the other way round.
void kernels_are_no_functions(report& out) {
  use_device();
  CUlibrary library = nullptr;
  CUkernel k = nullptr;
  CUfunction function = nullptr;
  require(cuLibraryLoadData(&library, two_parameters, nullptr, nullptr, 0,
                            nullptr, nullptr, 0),
          "cuLibraryLoadData");
  require(cuLibraryGetKernel(&k, library, "k"), "cuLibraryGetKernel");
  require(cuKernelGetFunction(&function, k), "cuKernelGetFunction");
  auto cast = reinterpret_cast<CUfunction>(k);
  const char* name = nullptr;
  CUmodule module = nullptr;
  int value = 0;
  size_t offset = 0, size = 0;
  void* pointer = nullptr;
  out << cuFuncGetName(&name, cast) << cuFuncGetModule(&module, cast)
      << cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, cast)
      << cuFuncGetParamInfo(cast, 0, &offset, &size)
      << cuFuncSetCacheConfig(cast, CU_FUNC_CACHE_PREFER_L1)
      << cuKernelGetFunction(&function, reinterpret_cast<CUkernel>(function))
      << cuLibraryGetUnifiedFunction(&pointer, library, "k")
      << cuCtxSetCurrent(nullptr) << cuKernelGetParamInfo(k, 0, &offset, &size);
}

void function_attributes(report& out) {
  use_device();
  auto store = kernel(load_kernels(), "store");
  int value = 0, blocks = 0;
  out << cuFuncGetAttribute(&value, std::bit_cast<CUfunction_attribute>(999),
                            store);
  out << cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                            store)
      << value;
  out << cuFuncSetAttribute(
      store, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 20);
  out << cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, store, 0, 0)
      << cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, store, 2000, 0);
}

constexpr truth_case cases[] = {
    {"bad_images",
     "ModuleLoadData: garbage text, empty, null; bad PTX; newer PTX version; "
     "PTX target sm_999; ModuleLoad of an empty name",
     "CUDA_ERROR_INVALID_IMAGE CUDA_ERROR_INVALID_IMAGE "
     "CUDA_ERROR_INVALID_VALUE CUDA_ERROR_INVALID_PTX "
     "CUDA_ERROR_UNSUPPORTED_PTX_VERSION CUDA_ERROR_INVALID_PTX "
     "CUDA_ERROR_INVALID_VALUE",
     bad_images},
    {"names",
     "ModuleGetFunction: unknown name, null name, empty; ModuleGetGlobal: "
     "unknown, null size, a kernel, null address",
     "CUDA_ERROR_NOT_FOUND CUDA_ERROR_INVALID_VALUE CUDA_ERROR_INVALID_VALUE "
     "CUDA_ERROR_NOT_FOUND CUDA_SUCCESS CUDA_ERROR_INVALID_VALUE "
     "CUDA_SUCCESS size 16",
     names},
    {"unload_in_capture",
     "ModuleUnload, EndCapture: while capturing (global, thread-local, "
     "relaxed)",
     "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED "
     "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED "
     "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED "
     "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED CUDA_SUCCESS CUDA_SUCCESS",
     unload_in_capture},
    {"loading_mode",
     "CUDA_MODULE_LOADING=eager, LAZY, EAGER with a blank: GetLoadingMode",
     "mode CUDA_SUCCESS 1 mode CUDA_SUCCESS 2 mode CUDA_SUCCESS 2",
     loading_mode},
    {"compiler_options",
     "ModuleLoadDataEx: OPTIMIZATION_LEVEL 4, 5, 7, -1; TARGET of another "
     "device, of none; MAX_REGISTERS 0; FALLBACK_STRATEGY 2; "
     "those of the options 15 to 28 that refuse a value of 0",
     "CUDA_SUCCESS CUDA_SUCCESS CUDA_SUCCESS CUDA_ERROR_INVALID_PTX target "
     "CUDA_ERROR_INVALID_SOURCE CUDA_ERROR_INVALID_VALUE registers "
     "CUDA_ERROR_INVALID_VALUE fallback "
     "CUDA_SUCCESS null 15 CUDA_ERROR_INVALID_PTX 17 CUDA_ERROR_INVALID_VALUE "
     "18 CUDA_ERROR_INVALID_VALUE 19 CUDA_ERROR_INVALID_VALUE 25 "
     "CUDA_ERROR_INVALID_VALUE 27 CUDA_ERROR_INVALID_VALUE",
     compiler_options},
    {"link_twice",
     "LinkAddData of PTX; LinkComplete; ModuleLoadData of the image; "
     "LinkComplete and LinkAddData again",
     "CUDA_SUCCESS CUDA_SUCCESS CUDA_SUCCESS CUDA_ERROR_INVALID_HANDLE "
     "CUDA_ERROR_INVALID_VALUE",
     link_twice},
    {"link_nothing",
     "LinkComplete of nothing; LinkAddData of bad PTX, LinkComplete",
     "CUDA_SUCCESS CUDA_ERROR_INVALID_PTX CUDA_SUCCESS", link_nothing},
    {"link_same_symbols",
     "LinkAddData of PTX that defines a function, twice; LinkComplete",
     "CUDA_SUCCESS CUDA_ERROR_INVALID_SOURCE CUDA_ERROR_INVALID_SOURCE",
     link_same_symbols},
    {"unload_twice", "ModuleUnload twice (handle gone)",
     "CUDA_SUCCESS CUDA_ERROR_INVALID_HANDLE", unload_twice},
    {"libraries",
     "LibraryLoadData garbage, good; GetKernel unknown, known; "
     "KernelGetFunction; KernelGetParamInfo 0,1,2",
     "CUDA_SUCCESS CUDA_SUCCESS CUDA_ERROR_NOT_FOUND CUDA_SUCCESS CUDA_SUCCESS "
     "CUDA_SUCCESS CUDA_SUCCESS CUDA_ERROR_INVALID_VALUE",
     libraries},
    {"kernels_are_no_functions",
     "FuncGetName, GetModule, GetAttribute, GetParamInfo, SetCacheConfig of a "
     "kernel; KernelGetFunction of a function; LibraryGetUnifiedFunction; "
     "KernelGetParamInfo without a context",
     "CUDA_ERROR_INVALID_HANDLE CUDA_ERROR_INVALID_HANDLE "
     "CUDA_ERROR_INVALID_HANDLE CUDA_ERROR_INVALID_HANDLE "
     "CUDA_ERROR_INVALID_HANDLE CUDA_ERROR_INVALID_HANDLE "
     "CUDA_ERROR_INVALID_VALUE CUDA_SUCCESS CUDA_ERROR_INVALID_CONTEXT",
     kernels_are_no_functions},
    {"function_attributes",
     "FuncGetAttribute(bad), MAX_THREADS; FuncSetAttribute smem 1 MiB; "
     "Occupancy block 0 / 2000",
     "CUDA_ERROR_INVALID_VALUE CUDA_SUCCESS 1024 CUDA_ERROR_INVALID_VALUE "
     "CUDA_ERROR_INVALID_VALUE CUDA_SUCCESS",
     function_attributes},
};

} // namespace

std::span<const truth_case> module_cases() {
  return cases;
}

} // namespace vgpu::test
