// The session's modules on the real device.
#pragma once

#include "devices/interface/device.hpp"
#include "devices/nvidia/driver/driver.hpp"

#include <atomic>
#include <functional>
#include <unordered_map>

namespace vgpu::device::nvidia {

/// Maps modules and their kernels to the driver's. Called by the session's one
/// thread.
class modules {
public:
  explicit modules(driver_ptr api) : api_(std::move(api)) {}

  result<module_info> load(module_id id, std::span<const std::byte> image);
  /// Forgets the module. The caller unloads it, by what is returned, when no
  /// work uses it any more.
  result<std::function<void()>> take(module_id id);
  /// Null where there is none.
  CUfunction find(module_id id, std::uint32_t kernel) const noexcept;

  /// Its variables, as the driver tells their sizes; not what it aligns them
  /// to.
  std::uint64_t variable_bytes() const;

  /// Whether some kernel that was ever loaded may print. Thread-safe.
  bool prints() const noexcept { return prints_; }

private:
  struct loaded {
    CUmodule handle = nullptr;
    CUlibrary library = nullptr; // that the module is of, or none
    std::vector<CUfunction> kernels;
    std::uint64_t variable_bytes = 0;
  };

  status load(loaded& to, std::span<const std::byte> image) const;
  status link(loaded& to,
              std::span<const std::span<const std::byte>> parts) const;
  void unload(const loaded& x) const;
  status list_kernels(loaded& from, module_info& to) const;
  kernel_info describe(CUfunction f) const;
  void list_globals(CUmodule from, std::span<const std::byte> image,
                    module_info& to);

  driver_ptr api_;
  std::unordered_map<module_id, loaded> modules_;
  std::atomic<bool> prints_ = false;
};

} // namespace vgpu::device::nvidia
