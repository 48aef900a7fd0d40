// The modules of a session: their programs and the addresses of their
// variables.
#pragma once

#include "devices/cpu/lower/program.hpp"
#include "devices/cpu/memory/device_heap.hpp"
#include "devices/cpu/memory/memory_map.hpp"
#include "devices/cpu/ptx/ptx_ast.hpp"
#include "devices/interface/device.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>

namespace vgpu::device::cpu {

struct placed_code;

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
  /// Sets where a heap lies that has another size than the default one. Its
  /// size must not decide where modules lie, because a state keeps only the
  /// latest size.
  void place_large_heap_at(device_address place) noexcept { large_ = place; }

  /// Implements device::load_module(). Errors are CUDA_ERROR_INVALID_IMAGE,
  /// CUDA_ERROR_INVALID_PTX, CUDA_ERROR_UNSUPPORTED_PTX_VERSION and
  /// CUDA_ERROR_NO_BINARY_FOR_GPU, and those of take_memory.
  result<module_info> load(module_id id, std::span<const std::byte> image,
                           const jit_settings& how);
  /// Implements device::check_part().
  result<std::string> check(std::span<const std::byte> image,
                            const jit_settings& how) const;

  /// Forgets a module. Unmaps the granules that no module uses any more.
  status unload(module_id id);

  /// Returns the heap for malloc of kernels. It is placed when the first module
  /// that calls malloc is loaded, before that module's variables where it has
  /// the default size.
  cpu::heap& heap() noexcept { return heap_; }
  /// Sets the size of the heap, and moves a heap that no kernel has used.
  /// Precondition: no work is under way that may allocate. Errors are
  /// CUDA_ERROR_INVALID_VALUE for a heap in use and those of take_memory.
  result<std::optional<global_info>> limit_heap(std::uint64_t bytes);
  /// Gives up the heap, and sets its size to the default. Precondition: no
  /// module is loaded, and no work uses the heap.
  std::optional<global_info> reset_heap();

  /// Returns the bytes of whole granules for variables and the heap, and the
  /// bytes of the programs, which lie in host memory. There is no context.
  side_memory beside() const;

  /// Returns a module, or null.
  loaded_module* find(module_id id);
  /// Returns a kernel, or null.
  loaded_kernel* find(module_id id, std::uint32_t kernel);

private:
  device_address first_place(const ptx::module& source) const noexcept;
  result<loaded_module> compile(std::span<const std::string> texts,
                                const jit_settings& how, unsigned target);
  result<loaded_module> finish(placed_code x, const jit_settings& how,
                               unsigned target);
  status back(device_address begin, device_address end);
  device_address heap_place(std::uint64_t bytes) const noexcept;
  status place_heap(std::uint64_t bytes);
  void give_heap();
  global_info heap_variable() const;

  /// Unmaps granules of [begin, end) that hold nothing.
  void give_unused(device_address begin, device_address end, bool was_used);

  unsigned capability_;
  take_memory take_;
  give_memory give_;
  device_address next_ = 0;
  cpu::heap heap_;
  std::uint64_t heap_limit_ = heap::default_bytes;
  /// The place of a heap of the default size, which the first module that calls
  /// malloc decides, or 0 before.
  device_address home_ = 0;
  device_address large_ = 0;
  std::unordered_map<module_id, loaded_module> modules_;
  /// Counts the modules that have variables in each granule.
  std::unordered_map<device_address, unsigned> granules_;
};

} // namespace vgpu::device::cpu
