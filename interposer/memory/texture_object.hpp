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

/// Describes a texture or surface object, as the program did. It is a value.
struct texture {
  texture_id wire;
  bool surface = false;
  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC sampling{};
  std::optional<CUDA_RESOURCE_VIEW_DESC> view;
};

/// Holds all texture and surface objects by device and by the value that
/// kernels use for them.
struct texture_table {
  struct entry {
    texture what;
    const context* owner = nullptr;
  };

  std::mutex mutex;
  /// Holds the objects by device and value.
  std::map<std::pair<int, std::uint64_t>, entry> by_value;
  std::atomic<std::uint64_t> last_id{0};
};

/// Makes an object after the driver's checks. It takes a round trip, because on
/// some devices only the driver can choose the value that kernels use for it.
CUresult create_texture(context& in, const CUDA_RESOURCE_DESC& resource,
                        const CUDA_TEXTURE_DESC& sampling,
                        const CUDA_RESOURCE_VIEW_DESC* view, CUtexObject& out);
/// Makes a surface object after the driver's checks, by a round trip.
CUresult create_surface(context& in, const CUDA_RESOURCE_DESC& resource,
                        CUsurfObject& out);

/// Finds the object that the value names on the context's device. Returns
/// nothing where there is none of this kind.
std::optional<texture> find_texture(const context& in, std::uint64_t value,
                                    bool surface);
/// Destroys an object. As in the driver, does nothing where the value names
/// none.
CUresult destroy_texture(context& in, std::uint64_t value, bool surface);

/// Destroys all objects of a context.
void destroy_textures(context& of);

} // namespace vgpu::interposer
