#include "interposer/nvml/nvml_session.hpp"

#include "interposer/session/bridge_search.hpp"

#include <atomic>
#include <mutex>

namespace vgpu::nvml {

namespace {

using interposer::nvml_bridge;

struct state {
  std::mutex mutex;
  const nvml_bridge* bridge = nullptr;
  unsigned begun = 0;
  std::atomic<unsigned> devices{0};
  std::atomic<bool> initialized{false};
};

state& here() {
  static auto& x = *new state;
  return x;
}

} // namespace

code begin(bool may_have_none) noexcept {
  auto& x = here();
  std::lock_guard guard{x.mutex};
  if (x.bridge == nullptr)
    x.bridge = interposer::find_bridge<nvml_bridge>(interposer::nvml_bridge_id);
  if (x.bridge == nullptr)
    return code::library_not_found;
  unsigned devices = 0;
  if (x.bridge->open(&devices) != CUDA_SUCCESS && !may_have_none)
    return code::driver_not_loaded;
  x.devices = devices;
  ++x.begun;
  x.initialized = true;
  return code::success;
}

code end() noexcept {
  auto& x = here();
  std::lock_guard guard{x.mutex};
  if (x.begun == 0)
    return code::uninitialized;
  x.initialized = --x.begun != 0;
  return code::success;
}

bool is_initialized() noexcept {
  return here().initialized;
}

unsigned count() noexcept {
  return here().devices;
}

// A handle points to nothing: it is the index plus one.
device* handle_of(unsigned index) noexcept {
  return index < count() ? reinterpret_cast<device*>(std::uintptr_t{index} + 1)
                         : nullptr;
}

unsigned index_of(device* handle) noexcept {
  return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(handle) - 1);
}

code facts_of(device* handle, nvml_device_facts& out) noexcept {
  if (reinterpret_cast<std::uintptr_t>(handle) - 1 >= count())
    return code::invalid_argument;
  return here().bridge->device(index_of(handle), &out) == CUDA_SUCCESS
             ? code::success
             : code::gpu_is_lost;
}

code processes_of(device* handle,
                  std::vector<interposer::nvml_process>& out) noexcept {
  if (reinterpret_cast<std::uintptr_t>(handle) - 1 >= count())
    return code::invalid_argument;
  try {
    unsigned have = 16;
    do {
      out.resize(have);
      if (here().bridge->processes(index_of(handle), out.data(), &have) !=
          CUDA_SUCCESS)
        return code::gpu_is_lost;
    } while (have > out.size());
    out.resize(have);
    return code::success;
  } catch (const std::bad_alloc&) {
    return code::memory;
  }
}

} // namespace vgpu::nvml
