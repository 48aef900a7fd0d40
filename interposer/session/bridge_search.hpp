// How our other libraries find the tables in libcuda.so.1 that serve them.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>

#include <dlfcn.h>

namespace vgpu::interposer {

/// Names a table, for cuGetExportTable.
using bridge_id = std::array<std::uint8_t, 16>;

/// Returns the table of a loaded libcuda.so.1, or null where it has none of
/// that name and size. NVIDIA's driver has none.
template <class Bridge>
const Bridge* bridge_of(void* library, const bridge_id& name) noexcept {
  using get_table = CUresult (*)(const void**, const CUuuid*);
  auto get = reinterpret_cast<get_table>(::dlsym(library, "cuGetExportTable"));
  if (get == nullptr)
    return nullptr;
  CUuuid id;
  std::memcpy(id.bytes, name.data(), sizeof id.bytes);
  const void* table = nullptr;
  if (get(&table, &id) != CUDA_SUCCESS || table == nullptr)
    return nullptr;
  const auto* out = static_cast<const Bridge*>(table);
  return out->bytes >= sizeof(Bridge) ? out : nullptr;
}

/// Finds the table in the driver that the program uses or will use, or else in
/// the libcuda.so.1 of the folder that the calling library lies in. A library
/// that is found stays loaded.
template <class Bridge>
const Bridge* find_bridge(const bridge_id& id) noexcept {
  constexpr auto name = "libcuda.so.1";
  for (auto how : {RTLD_NOW | RTLD_NOLOAD, RTLD_NOW})
    if (auto* library = ::dlopen(name, how); library != nullptr)
      if (const auto* found = bridge_of<Bridge>(library, id); found != nullptr)
        return found;
  Dl_info own{};
  if (::dladdr(reinterpret_cast<const void*>(&find_bridge<Bridge>), &own) ==
          0 ||
      own.dli_fname == nullptr)
    return nullptr;
  try {
    std::string path = own.dli_fname;
    path.erase(path.rfind('/') + 1);
    auto* library = ::dlopen((path + name).c_str(), RTLD_NOW);
    return library == nullptr ? nullptr : bridge_of<Bridge>(library, id);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

} // namespace vgpu::interposer
