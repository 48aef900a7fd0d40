// The modules of a session: their programs and where their variables lie.
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

/// A kernel of a loaded module, and the attributes that were set on it.
struct loaded_kernel {
  const code* what = nullptr;
  kernel_info info;
};

struct loaded_module {
  std::shared_ptr<const program> code;
  std::vector<loaded_kernel> kernels;
  std::vector<global_info> globals;
  /// Where its variables lie: [begin, end).
  device_address begin = 0, end = 0;
};

/// Places modules one behind the other in the window, never twice at one
/// address: where a module lies depends only on the loads before. For one
/// thread.
class module_store {
public:
  /// Takes a granule of the window for variables, within the quota; gives it
  /// back, at once or, when it was used, after the work enqueued so far.
  using take_memory = std::function<status(device_address)>;
  using give_memory = std::function<void(device_address, bool was_used)>;

  /// `capability` as in cpu_options.
  module_store(unsigned capability, take_memory take, give_memory give)
      : capability_{capability}, take_{std::move(take)}, give_{
                                                             std::move(give)} {}

  void place_from(device_address base) noexcept { next_ = base; }

  /// Errors: see load_module in device.hpp; CUDA_ERROR_INVALID_IMAGE,
  /// CUDA_ERROR_INVALID_PTX, CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
  /// CUDA_ERROR_NO_BINARY_FOR_GPU.
  result<module_info> load(module_id id, std::span<const std::byte> image);

  /// Forgets a module; gives back the granules that no module uses any more.
  status unload(module_id id);

  /// What malloc of kernels takes from. Placed when the first module that
  /// calls it is loaded, in front of that module's variables, for good.
  cpu::heap& heap() noexcept { return heap_; }

  /// Whole granules for variables and the heap, also what two modules have of
  /// one; and what programs execute. Both are memory of the host; there is no
  /// context.
  side_memory beside() const;

  loaded_module* find(module_id id);
  /// Null when there is no such kernel.
  loaded_kernel* find(module_id id, std::uint32_t kernel);

private:
  result<loaded_module> compile(std::span<const std::string> texts);
  status back(device_address begin, device_address end);

  /// Gives back granules of [begin, end) that hold nothing.
  void give_unused(device_address begin, device_address end, bool was_used);

  unsigned capability_;
  take_memory take_;
  give_memory give_;
  device_address next_ = 0;
  cpu::heap heap_;
  std::unordered_map<module_id, loaded_module> modules_;
  /// How many modules have variables in each granule.
  std::unordered_map<device_address, unsigned> granules_;
};

} // namespace vgpu::device::cpu
