#include "interposer/nvml/nvml_session.hpp"

#include <atomic>
#include <cstring>
#include <mutex>
#include <string>

#include <dlfcn.h>

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

const nvml_bridge* bridge_of(void* library) noexcept {
  using get_table = CUresult (*)(const void**, const CUuuid*);
  auto get = reinterpret_cast<get_table>(::dlsym(library, "cuGetExportTable"));
  if (get == nullptr)
    return nullptr;
  CUuuid id;
  std::memcpy(id.bytes, interposer::nvml_bridge_id.data(), sizeof id.bytes);
  const void* table = nullptr;
  // NVIDIA's driver has no such table.
  if (get(&table, &id) != CUDA_SUCCESS || table == nullptr)
    return nullptr;
  auto* out = static_cast<const nvml_bridge*>(table);
  return out->bytes >= sizeof(nvml_bridge) ? out : nullptr;
}

/// Finds the bridge in the driver that the program uses or will use, or else in
/// the libcuda.so.1 of this library's own folder.
const nvml_bridge* find_bridge() noexcept {
  constexpr auto name = "libcuda.so.1";
  for (auto how : {RTLD_NOW | RTLD_NOLOAD, RTLD_NOW})
    if (auto* library = ::dlopen(name, how); library != nullptr)
      if (auto* found = bridge_of(library); found != nullptr)
        return found;
  Dl_info own{};
  if (::dladdr(reinterpret_cast<const void*>(&find_bridge), &own) == 0 ||
      own.dli_fname == nullptr)
    return nullptr;
  try {
    std::string path = own.dli_fname;
    path.erase(path.rfind('/') + 1);
    auto* library = ::dlopen((path + name).c_str(), RTLD_NOW);
    return library == nullptr ? nullptr : bridge_of(library);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

} // namespace

code begin(bool may_have_none) noexcept {
  auto& x = here();
  std::lock_guard guard{x.mutex};
  if (x.bridge == nullptr)
    x.bridge = find_bridge();
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
