// The benchmarks' side as a CUDA program of the driver API.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <string>

namespace vgpu::bench {

/// Throws std::runtime_error that names the call, unless it succeeded.
void check(CUresult code, const char* call);

/// A context on the first device, and a kernel that does nothing.
class program {
public:
  program();
  program(const program&) = delete;
  program& operator=(const program&) = delete;

  /// The one of this process; made on first use.
  static program& instance();

  void launch() const;
  /// Appends something that costs no work, so that a synchronising call has
  /// something to wait for.
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
