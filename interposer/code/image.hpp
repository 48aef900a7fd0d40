// Images that a program hands to the driver by a bare pointer: their kinds, and
// where they end.
#pragma once

#include "schema/base/fault.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

namespace vgpu::interposer {

/// A fatbin container begins with this.
inline constexpr std::uint32_t container_magic = 0xBA55ED50;

enum class image_kind : std::uint8_t { fatbin, cubin, ptx };

/// Precedes an image that cuLinkComplete returned. The linker's options and
/// then the containers of the linked parts follow this header, and are loaded.
struct linked_header {
  static constexpr std::uint32_t the_magic = 0x4B4C4756; // "VGLK"
  static constexpr std::uint32_t the_version = 2;
  std::uint32_t magic = the_magic;
  std::uint32_t version = the_version;
  std::uint64_t bytes = 0;    // without the header
  std::uint64_t settings = 0; // bytes of options (schema/base/jit_settings.hpp)
};

/// Describes an image in the program's memory, or one joined from several
/// places there.
struct image_view {
  image_kind kind = image_kind::ptx;
  std::span<const std::byte> bytes;
  // The options with which a linked image was linked
  std::span<const std::byte> settings{};
  // Owns the bytes of a joined image
  std::shared_ptr<const std::vector<std::byte>> joined{};
};

/// Determines the kind of image at `image`: a fatbin's wrapper, a fatbin
/// container, a cubin, an image that was linked at run time, or PTX text that
/// ends with a NUL. It follows a wrapper. For a program that was linked on the
/// device, the containers of its parts follow that of the whole, each at a
/// multiple of 8 bytes. It reads at most `limit` bytes, for callers that know
/// where the memory ends.
///
/// Returns CUDA_ERROR_INVALID_IMAGE for anything else, and for an image whose
/// own lengths lead out of `limit` or into unreadable memory. The bytes may be
/// anything, but the pointer must be readable where it points.
result<image_view>
view_image(const void* image,
           std::uint64_t limit = std::numeric_limits<std::uint64_t>::max());

/// Tells whether this process can read [at, at + bytes), as far as the kernel
/// says without a read.
bool is_readable(const void* at, std::uint64_t bytes) noexcept;

} // namespace vgpu::interposer
