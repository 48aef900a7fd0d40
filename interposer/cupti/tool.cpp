#include "interposer/cupti/tool.hpp"

#include "interposer/cupti/call_watch.hpp"

#include <cstring>
#include <new>
#include <string>

#include <dlfcn.h>

namespace vgpu::cupti {

namespace {

using interposer::cupti_bridge;

const cupti_bridge* bridge_of(void* library) noexcept {
  using get_table = CUresult (*)(const void**, const CUuuid*);
  auto get = reinterpret_cast<get_table>(::dlsym(library, "cuGetExportTable"));
  if (get == nullptr)
    return nullptr;
  CUuuid id;
  std::memcpy(id.bytes, interposer::cupti_bridge_id.data(), sizeof id.bytes);
  const void* table = nullptr;
  // NVIDIA's driver has no such table.
  if (get(&table, &id) != CUDA_SUCCESS || table == nullptr)
    return nullptr;
  const auto* out = static_cast<const cupti_bridge*>(table);
  return out->bytes >= sizeof(cupti_bridge) ? out : nullptr;
}

/// Finds the bridge in the driver that the program uses or will use, or else in
/// the libcuda.so.1 of this library's own folder.
const cupti_bridge* find_bridge() noexcept {
  constexpr auto name = "libcuda.so.1";
  for (auto how : {RTLD_NOW | RTLD_NOLOAD, RTLD_NOW})
    if (auto* library = ::dlopen(name, how); library != nullptr)
      if (const auto* found = bridge_of(library); found != nullptr)
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

tool& here() noexcept {
  static auto& x = *new tool;
  return x;
}

const cupti_bridge* driver() noexcept {
  static std::atomic<const cupti_bridge*> known{nullptr};
  const auto* out = known.load();
  if (out == nullptr) {
    out = find_bridge();
    known.store(out);
  }
  return out;
}

code apply_wishes(tool& x) {
  const auto* by = driver();
  if (by == nullptr)
    return code::not_initialized;
  auto on = [&](kind what) { return x.kinds[static_cast<std::size_t>(what)]; };
  auto wants_work = x.kinds.any();
  x.wants_calls =
      on(kind::driver) || on(kind::runtime) || on(kind::external_correlation);
  x.wants_callbacks =
      x.one.is_active &&
      x.one.enabled[static_cast<std::size_t>(domain::driver)].any();
  if (by->listen(wants_work || x.wants_callbacks ? &call_watch() : nullptr) !=
      CUDA_SUCCESS)
    return code::unknown;
  return by->gather(wants_work ? 1 : 0) == CUDA_SUCCESS ? code::success
                                                        : code::unknown;
}

} // namespace vgpu::cupti
