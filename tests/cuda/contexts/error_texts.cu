// The driver's names and texts of errors are those that the runtime has.
// nvcc: -lcuda
#include "../check.hpp"

#include <cstring>
#include <string>

int main() {
  int known = 0;
  for (int i = 0; i < 1100; ++i) {
    const char *name = nullptr, *text = nullptr;
    auto code = cuGetErrorName(static_cast<CUresult>(i), &name);
    EXPECT(cuGetErrorString(static_cast<CUresult>(i), &text) == code);
    EXPECT((name == nullptr) == (code != CUDA_SUCCESS));
    EXPECT((text == nullptr) == (code != CUDA_SUCCESS));
    std::string runtime = cudaGetErrorString(static_cast<cudaError_t>(i));
    if (code != CUDA_SUCCESS || runtime == "unrecognized error code")
      continue;
    ++known;
    if (runtime != text)
      std::printf("%s: '%s', and the runtime says '%s'\n", name, text,
                  runtime.c_str());
    EXPECT(runtime == text);
    EXPECT(std::strncmp(name, "CUDA_", 5) == 0);
  }
  EXPECT(known > 90);
  std::printf("ok\n");
}
