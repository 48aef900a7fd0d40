// The benchmarks as a CUDA program that uses the driver API.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <string>

namespace vgpu::bench {

/// Throws std::runtime_error, which names the call, unless the call succeeded.
void check(CUresult code, const char* call);

/// Holds a context on the first device, and an empty kernel.
class program {
public:
  program();
  program(const program&) = delete;
  program& operator=(const program&) = delete;

  /// Returns this process's only object, which is made on first use.
  static program& instance();

  void launch() const;
  /// Appends a call without work, so that a synchronising call has something to
  /// wait for.
  void leave_something_pending() const;
  void synchronise() const;

  CUdeviceptr memory() const noexcept { return memory_; }
  static constexpr std::size_t memory_bytes = std::size_t{8} << 20;

private:
  CUcontext context_ = nullptr;
  CUmodule module_ = nullptr;
  CUfunction kernel_ = nullptr;
  CUevent event_ = nullptr;
  CUdeviceptr memory_ = 0;
};

} // namespace vgpu::bench
