// Options of the just-in-time compiler. The worker's driver chooses for
// itself; what the program expects to be filled in is filled in.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <string_view>

namespace vgpu::interposer {

/// Where the program wants to read what a compiler or linker says. Buffers and
/// values are the program's, and must last as long as CUDA asks them to.
class jit_log {
public:
  /// The text ends with a NUL and is cut where the buffer ends; the program
  /// learns how many bytes were written.
  void write(std::string_view text) const noexcept;

private:
  friend CUresult take_jit_options(unsigned, const CUjit_option*, void**,
                                   struct jit_logs&) noexcept;

  char* text_ = nullptr;
  std::size_t room_ = 0;
  void** written_ = nullptr;
};

struct jit_logs {
  jit_log info;
  jit_log error;
};

/// Finds the logs among the options, empties them, and zeroes the times that
/// the options ask for. CUDA_ERROR_INVALID_VALUE for an option that does not
/// exist.
CUresult take_jit_options(unsigned count, const CUjit_option* options,
                          void** values, jit_logs& out) noexcept;

/// The same, where nothing will be said.
CUresult answer_jit_options(unsigned count, const CUjit_option* options,
                            void** values) noexcept;

} // namespace vgpu::interposer
