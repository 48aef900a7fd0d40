// What shall happen when a kernel faults (CUDA driver API, "Coredump Attributes
// Control API").
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <mutex>
#include <string>
#include <utility>

namespace vgpu::interposer {

/// Holds the settings of core dumps of the process or of one context. They are
/// kept and told; no dump is written. Thread-safe.
class core_dump_settings {
public:
  /// Holds the settings of a context that has not begun.
  core_dump_settings() = default;

  /// Returns the settings of a process that has set nothing, with those that
  /// the environment gives (CUDA-GDB, "GPU core dump support").
  static core_dump_settings of_environment();

  /// Takes over the settings of the process, as a context begins that was made
  /// with these CU_CTX_... flags.
  void begin_as(const core_dump_settings& process, unsigned context_flags);

  /// Writes a setting into `value`, which has `*size` bytes, and its size into
  /// `*size`. Without a value, writes the size that a value has at most.
  /// Returns CUDA_ERROR_INVALID_VALUE for an unknown setting, for no size, and
  /// for a value with too few bytes.
  CUresult get(CUcoredumpSettings which, void* value, std::size_t* size) const;

  /// Sets a setting of the process. Without a value, writes the size that a
  /// value has at most. Errors are those of get(), and
  /// CUDA_ERROR_NOT_PERMITTED where the environment has decided the setting.
  CUresult set(CUcoredumpSettings which, const void* value, std::size_t* size);
  /// Sets a setting of a context. Pipes and their use can be set only for the
  /// process; here the error is CUDA_ERROR_NOT_PERMITTED.
  CUresult set_in_context(CUcoredumpSettings which, const void* value,
                          std::size_t* size);

private:
  struct values {
    bool on_exception = false;
    bool user_trigger = false;
    std::string file, pipe;
    /// Says also whether dumps are lightweight and whether the process aborts.
    unsigned flags = CU_COREDUMP_DEFAULT_FLAGS;
    /// Tells for each setting whether the environment has decided it.
    std::array<bool, CU_COREDUMP_MAX> decided{};

    bool flag(CUcoredumpSettings which) const noexcept;
    void set_flag(CUcoredumpSettings which, bool to) noexcept;
    static values of_environment();
  };
  explicit core_dump_settings(values x) : is_(std::move(x)) {}

  mutable std::mutex mutex_;
  values is_;
};

} // namespace vgpu::interposer
