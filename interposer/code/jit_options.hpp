// Options of the just-in-time compiler. The worker's driver chooses for itself;
// this fills in the values that the program expects back.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <string_view>

namespace vgpu::interposer {

/// Writes messages of a compiler or linker where the program reads them. The
/// program owns the buffers and values, which must live as long as CUDA
/// demands.
class jit_log {
public:
  /// Writes the text and a NUL, cut to the buffer's size, and reports to the
  /// program how many bytes that was.
  void write(std::string_view text) const noexcept;

private:
  friend CUresult take_jit_options(unsigned, const CUjit_option*, void**,
                                   struct jit_logs&) noexcept;

  char* text_ = nullptr;
  std::size_t room_ = 0;
  void** written_ = nullptr;
};

/// Holds the two logs of a compiler or linker.
struct jit_logs {
  jit_log info;
  jit_log error;
};

/// Finds the logs among the options, empties them, and zeroes the times that
/// the options ask for. Returns CUDA_ERROR_INVALID_VALUE for an option that
/// does not exist.
CUresult take_jit_options(unsigned count, const CUjit_option* options,
                          void** values, jit_logs& out) noexcept;

/// Answers the options of a call that writes no messages.
CUresult answer_jit_options(unsigned count, const CUjit_option* options,
                            void** values) noexcept;

} // namespace vgpu::interposer
