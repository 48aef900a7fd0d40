// The modules of a session: their programs and the addresses of their
// variables.
#pragma once

#include "devices/cpu/lower/program.hpp"
#include "devices/cpu/memory/device_heap.hpp"
#include "devices/cpu/memory/memory_map.hpp"
#include "devices/interface/device.hpp"

#include <functional>
#include <memory>
#include <span>
#include <unordered_map>

namespace vgpu::device::cpu {

/// Describes a kernel of a loaded module, with the attributes that were set on
/// it.
struct loaded_kernel {
  const code* what = nullptr;
  kernel_info info;
};

/// Describes a loaded module.
struct loaded_module {
  std::shared_ptr<const program> code;
  std::vector<loaded_kernel> kernels;
  std::vector<global_info> globals;
  /// The module's variables lie in [begin, end).
  device_address begin = 0, end = 0;
};

/// Loads modules and places them one after another in the window, never twice
/// at the same address, so that a module's address depends only on the loads
/// before. One thread makes all calls.
class module_store {
public:
  /// Maps a granule of the window for variables, within the quota.
  using take_memory = std::function<status(device_address)>;
  /// Unmaps such a granule: at once, or, where it was used, after the work
  /// enqueued so far.
  using give_memory = std::function<void(device_address, bool was_used)>;

  /// Makes an empty store. `capability` is that of cpu_options.
  module_store(unsigned capability, take_memory take, give_memory give)
      : capability_{capability}, take_{std::move(take)}, give_{
                                                             std::move(give)} {}

  /// Sets the address from which modules are placed.
  void place_from(device_address base) noexcept { next_ = base; }

  /// Implements device::load_module(). Errors are CUDA_ERROR_INVALID_IMAGE,
  /// CUDA_ERROR_INVALID_PTX, CUDA_ERROR_UNSUPPORTED_PTX_VERSION and
  /// CUDA_ERROR_NO_BINARY_FOR_GPU, and those of take_memory.
  result<module_info> load(module_id id, std::span<const std::byte> image);

  /// Forgets a module. Unmaps the granules that no module uses any more.
  status unload(module_id id);

  /// Returns the heap for malloc of kernels. It is placed when the first module
  /// that calls malloc is loaded, before that module's variables, and stays
  /// there.
  cpu::heap& heap() noexcept { return heap_; }

  /// Returns the bytes of whole granules for variables and the heap, and the
  /// bytes of the programs, which lie in host memory. There is no context.
  side_memory beside() const;

  /// Returns a module, or null.
  loaded_module* find(module_id id);
  /// Returns a kernel, or null.
  loaded_kernel* find(module_id id, std::uint32_t kernel);

private:
  result<loaded_module> compile(std::span<const std::string> texts);
  status back(device_address begin, device_address end);

  /// Unmaps granules of [begin, end) that hold nothing.
  void give_unused(device_address begin, device_address end, bool was_used);

  unsigned capability_;
  take_memory take_;
  give_memory give_;
  device_address next_ = 0;
  cpu::heap heap_;
  std::unordered_map<module_id, loaded_module> modules_;
  /// Counts the modules that have variables in each granule.
  std::unordered_map<device_address, unsigned> granules_;
};

} // namespace vgpu::device::cpu
