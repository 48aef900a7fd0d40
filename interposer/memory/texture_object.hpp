// Texture and surface objects.
#pragma once

#include "interposer/context/context.hpp"
#include "schema/base/texture_description.hpp"

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace vgpu::interposer {

/// A texture or surface object, as the program described it. A value.
struct texture {
  texture_id wire;
  bool surface = false;
  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC sampling{};
  std::optional<CUDA_RESOURCE_VIEW_DESC> view;
};

/// The table holds all texture and surface objects by the value that kernels
/// know them by, which is a device's own.
struct texture_table {
  struct entry {
    texture what;
    const context* owner = nullptr;
  };

  std::mutex mutex;
  std::map<std::pair<int, std::uint64_t>, entry> by_value; ///< and device
  std::atomic<std::uint64_t> last_id{0};
};

/// Makes an object after what the driver checks of it: a round trip, as on
/// some devices only the driver can choose the value that kernels know it by.
CUresult create_texture(context& in, const CUDA_RESOURCE_DESC& resource,
                        const CUDA_TEXTURE_DESC& sampling,
                        const CUDA_RESOURCE_VIEW_DESC* view, CUtexObject& out);
CUresult create_surface(context& in, const CUDA_RESOURCE_DESC& resource,
                        CUsurfObject& out);

/// What the value names on the context's device; nothing where that is not an
/// object, or one of the other kind.
std::optional<texture> find_texture(const context& in, std::uint64_t value,
                                    bool surface);
/// Does nothing where the value names none, as the driver.
CUresult destroy_texture(context& in, std::uint64_t value, bool surface);

/// Destroys all objects of a context.
void destroy_textures(context& of);

} // namespace vgpu::interposer
