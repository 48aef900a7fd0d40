// nvcc: -lcuda --std=c++20
// One thread loads modules with large variables while others allocate until
// nothing is left. Each call succeeds or is refused; no call fails later.
#include <cuda.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

void require(bool good, const char* what, CUresult code = CUDA_SUCCESS) {
  if (good)
    return;
  std::printf("%s: error %d\n", what, code);
  std::exit(1);
}
void must(CUresult code, const char* what) {
  require(code == CUDA_SUCCESS, what, code);
}
/// Tells whether a call succeeded that may find no memory.
bool has(CUresult code, const char* what) {
  require(code == CUDA_SUCCESS || code == CUDA_ERROR_OUT_OF_MEMORY, what, code);
  return code == CUDA_SUCCESS;
}

std::string text_of(std::size_t bytes) {
  return ".version 8.0\n.target sm_70\n.address_size 64\n"
         ".visible .global .align 8 .b8 big[" +
         std::to_string(bytes) + "];\n";
}

std::atomic<bool> stop{false};

void load(CUcontext in, std::size_t bytes) {
  must(cuCtxSetCurrent(in), "context");
  auto text = text_of(bytes);
  int loaded = 0, refused = 0;
  while (loaded + refused < 60 || (refused == 0 && loaded < 400)) {
    CUmodule module = nullptr;
    if (!has(cuModuleLoadData(&module, text.c_str()), "load")) {
      ++refused;
      continue;
    }
    ++loaded;
    CUdeviceptr at = 0;
    std::size_t size = 0;
    must(cuModuleGetGlobal(&at, &size, module, "big"), "global");
    must(cuMemsetD8(at + bytes - 1, 1, 1), "memset of a variable");
    must(cuModuleUnload(module), "unload");
  }
  stop = true;
}

void allocate(CUcontext in, std::size_t bytes) {
  must(cuCtxSetCurrent(in), "context");
  while (!stop) {
    std::vector<CUdeviceptr> all;
    CUdeviceptr at = 0;
    while (all.size() < 50 && has(cuMemAlloc(&at, bytes), "alloc")) {
      all.push_back(at);
      must(cuMemsetD8Async(at + bytes - 1, 1, 1, nullptr), "memset");
    }
    for (auto x : all)
      must(cuMemFree(x), "free");
    must(cuCtxSynchronize(), "synchronise");
  }
}

} // namespace

int main() {
  must(cuInit(0), "init");
  CUcontext in = nullptr;
  must(cuDevicePrimaryCtxRetain(&in, 0), "retain");
  must(cuCtxSetCurrent(in), "context");
  std::size_t free = 0, total = 0;
  must(cuMemGetInfo(&free, &total), "info");
  CUdeviceptr most = 0;
  must(cuMemAlloc(&most, free - 100 * mib), "most");
  std::thread loader{load, in, 60 * mib};
  std::thread one{allocate, in, 7 * mib + 1};
  std::thread two{allocate, in, 5 * mib};
  loader.join();
  one.join();
  two.join();
  must(cuCtxSynchronize(), "synchronise");
  must(cuMemFree(most), "free");
  std::size_t after = 0;
  must(cuMemGetInfo(&after, &total), "info");
  require(after == free, "not all came back");
  std::printf("ok\n");
  return 0;
}
