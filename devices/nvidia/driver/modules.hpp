// The session's modules on an NVIDIA GPU.
#pragma once

#include "devices/interface/device.hpp"
#include "devices/nvidia/driver/driver.hpp"

#include <atomic>
#include <functional>
#include <unordered_map>

namespace vgpu::device::nvidia {

class jit_options;

/// Maps module handles and kernel indices to the driver's modules and kernels.
/// The session's one thread makes all calls, except to prints().
class modules {
public:
  /// `arch` is the device's compute capability, as 90 for 9.0.
  modules(driver_ptr api, unsigned arch) : api_(std::move(api)), arch_(arch) {}

  /// Loads a fatbin container, cubin or PTX text. Errors are the driver's, and
  /// their texts are its error log.
  result<module_info> load(module_id id, std::span<const std::byte> image,
                           const jit_settings& how);
  /// Compiles a part that is linked later, and keeps nothing of it.
  result<std::string> check(std::span<const std::byte> image,
                            const jit_settings& how) const;
  /// Forgets the module. The returned function unloads it; the caller calls
  /// that function when no work uses the module any more.
  result<std::function<void()>> take(module_id id);
  /// Returns the driver's kernel, or null where there is none.
  CUfunction find(module_id id, std::uint32_t kernel) const noexcept;

  /// Returns the sum of the sizes that the driver reports for the modules'
  /// variables, without the bytes that alignment adds.
  std::uint64_t variable_bytes() const;

  /// Tells whether any kernel that was ever loaded may print. Thread-safe.
  bool prints() const noexcept { return prints_; }

private:
  struct loaded {
    CUmodule handle = nullptr;
    CUlibrary library = nullptr; // the library that the module is from, or null
    std::vector<CUfunction> kernels;
    std::uint64_t variable_bytes = 0;
  };

  status load(loaded& to, std::span<const std::byte> image,
              jit_options& how) const;
  status link(loaded& to, std::span<const std::span<const std::byte>> parts,
              jit_options& how) const;
  void unload(const loaded& x) const;
  status list_kernels(loaded& from, module_info& to) const;
  kernel_info describe(CUfunction f) const;
  void list_globals(CUmodule from, std::span<const std::byte> image,
                    module_info& to);

  driver_ptr api_;
  unsigned arch_;
  std::unordered_map<module_id, loaded> modules_;
  std::atomic<bool> prints_ = false;
};

} // namespace vgpu::device::nvidia
