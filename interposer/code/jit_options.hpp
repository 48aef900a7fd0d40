// Options of the just-in-time compiler and linker: those that change code go to
// the worker, and the program gets back what it asks for.
#pragma once

#include "schema/base/jit_settings.hpp"

#include <cuda.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace vgpu::interposer {

/// Says which call takes the options, because not every call takes all.
enum class jit_use : std::uint8_t { load, link };

/// Writes messages of a compiler or linker where the program reads them. The
/// program owns the buffers and values, which must live as long as CUDA
/// demands.
class jit_log {
public:
  /// Adds the text, cut to what is left of the buffer, and a NUL. Reports to
  /// the program how many bytes the log has.
  void add(std::string_view text) noexcept;
  bool wanted() const noexcept { return text_ != nullptr; }
  bool is_empty() const noexcept { return used_ == 0; }

private:
  friend class jit_request;

  char* text_ = nullptr;
  std::size_t room_ = 0;
  std::size_t used_ = 0;
  void** written_ = nullptr;
};

/// Holds the options of one call, and answers them.
class jit_request {
public:
  /// Takes the options, empties the logs and begins to measure time. Returns
  /// CUDA_ERROR_INVALID_VALUE for an option that does not exist, that this call
  /// does not take, or that contradicts another one, and for a value out of its
  /// range.
  CUresult take(jit_use use, unsigned count, const CUjit_option* options,
                void** values);

  const jit_settings& settings() const noexcept { return settings_; }

  /// Tells the program the compiler's information.
  void inform(std::string_view text) noexcept { info_.add(text); }
  /// Tells the program an error of the compiler.
  void fail(std::string_view text);
  /// Begins or ends a time that counts as the compiler's. take() begins one.
  void resume() noexcept { begun_ = std::chrono::steady_clock::now(); }
  void pause() noexcept { spent_ += std::chrono::steady_clock::now() - begun_; }
  /// Ends a time, and tells the program the sum.
  void finish() noexcept;

  bool wants_errors() const noexcept { return error_.wanted(); }
  bool wants_information() const noexcept { return info_.wanted(); }

private:
  CUresult take(jit_use use, int option, void*& value);
  CUresult take_symbols();

  jit_settings settings_;
  jit_log info_;
  jit_log error_;
  void** time_ = nullptr;
  std::chrono::steady_clock::time_point begun_;
  std::chrono::steady_clock::duration spent_{};

  // The arrays of CU_JIT_GLOBAL_SYMBOL_*, which the program owns.
  const char* const* names_ = nullptr;
  void* const* addresses_ = nullptr;
  std::size_t symbols_ = 0;
  bool counted_ = false; // the program said how many
};

} // namespace vgpu::interposer
