// nvcc: -lcuda
// What a failed compilation at run time tells a program: its code, and an error
// log that names the fault, cut to the program's buffer.
#include "../check.hpp"

#include <cstring>

namespace {

constexpr char faulty[] = R"(.version 7.8
.target sm_75
.address_size 64
.visible .entry faulty()
{
  .reg .u32 %r<3>;
  add.u32 %r1, %r2, %never_declared;
  ret;
}
)";

/// Loads `faulty` with an error log of so many bytes.
void log_of(size_t room) {
  constexpr char untouched = 0x7e;
  char log[4096];
  std::memset(log, untouched, sizeof log);
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER,
                            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(room)};
  CUmodule module = nullptr;
  EXPECT(cuModuleLoadDataEx(&module, faulty, 2, options, values) ==
         CUDA_ERROR_INVALID_PTX);
  EXPECT(reinterpret_cast<size_t>(values[1]) <= room);
  for (size_t i = room; i < sizeof log; ++i)
    EXPECT(log[i] == untouched);
  if (room < sizeof log)
    return;
  EXPECT(std::memchr(log, 0, room) != nullptr);
  EXPECT(std::strstr(log, "never_declared") != nullptr);
}

} // namespace

int main() {
  CHECK(cudaFree(nullptr));
  log_of(4096);
  log_of(24);
  log_of(1);
  std::puts("ok");
}
