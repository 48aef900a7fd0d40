// nvcc: -lcuda
//
// Has several modules of PTX, of which it unloads one. Each has a variable,
// whose address the program keeps, and many kernels, of which each round
// launches one. It loads another module every sixth round, or every EVERY
// rounds (0: never). It prints a line a round, which does not depend on where
// it runs.
#include "../cuda/check.hpp"

#include <chrono>
#include <string>
#include <thread>
#include <vector>

/// A kernel that adds `step` to the module's variable in a long way.
static std::string kernel_text(int number, int step) {
  std::string out = ".visible .entry k" + std::to_string(number) +
                    "() {\n.reg .u64 %a;\n.reg .u32 %s, %t;\n"
                    "mov.u64 %a, total;\nld.global.u32 %s, [%a];\n"
                    "mov.u32 %t, 0;\n";
  for (int i = 0; i < 64; ++i)
    out += "add.u32 %t, %t, " + std::to_string(i * step) +
           ";\nxor.b32 %t, %t, " + std::to_string(i) + ";\n";
  return out + "add.u32 %s, %s, " + std::to_string(step) +
         ";\nadd.u32 %s, %s, %t;\nst.global.u32 [%a], %s;\nret;\n}\n";
}

static std::string module_text(int module, int kernels) {
  std::string out = ".version 8.0\n.target sm_50\n.address_size 64\n"
                    ".visible .global .align 4 .u32 total = " +
                    std::to_string(1000 * module) + ";\n";
  for (int i = 0; i < kernels; ++i)
    out += kernel_text(i, 7 * module + i + 1);
  return out;
}

struct module {
  CUmodule handle = nullptr;
  CUdeviceptr total = 0;
  int kernels = 0;

  module(int number, int count) :kernels(count) {
    CHECK(cuModuleLoadData(&handle, module_text(number, count).c_str()));
    CHECK(cuModuleGetGlobal(&total, nullptr, handle, "total"));
  }
  void launch(int number) const {
    CUfunction f;
    auto name = "k" + std::to_string(number % kernels);
    CHECK(cuModuleGetFunction(&f, handle, name.c_str()));
    CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  }
  unsigned read() const {
    unsigned out = 0;
    CHECK(cuMemcpyDtoH(&out, total, sizeof out));
    return out;
  }
};

int main(int argc, char** argv) {
  if (argc < 3) {
    std::printf("usage: modules ROUNDS PAUSE-MS [MODULES [KERNELS [EVERY]]]\n");
    return 2;
  }
  int rounds = std::atoi(argv[1]), pause = std::atoi(argv[2]);
  int count = argc > 3 ? std::atoi(argv[3]) : 4;
  int kernels = argc > 4 ? std::atoi(argv[4]) : 20;
  int every = argc > 5 ? std::atoi(argv[5]) : 6;
  CUdevice device;
  CUcontext context;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  std::vector<module> modules;
  for (int i = 0; i < count; ++i) {
    modules.emplace_back(i, kernels);
    if (i == 1) {
      module gone(100, kernels);
      CHECK(cuModuleUnload(gone.handle));
    }
  }
  for (int round = 0; round < rounds; ++round) {
    if (every != 0 && round % every == every - 1)
      modules.emplace_back(static_cast<int>(modules.size()), kernels);
    unsigned sum = 0;
    for (auto& x : modules) {
      x.launch(round);
      sum = 31 * sum + x.read();
    }
    std::printf("%d %zu %u\n", round, modules.size(), sum);
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::milliseconds(pause));
  }
}
