// The images that a program hands to the driver by a bare pointer: what they
// are, and where they end.
#pragma once

#include "schema/base/fault.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

namespace vgpu::interposer {

/// What a fatbin container begins with.
inline constexpr std::uint32_t container_magic = 0xBA55ED50;

enum class image_kind : std::uint8_t { fatbin, cubin, ptx };

/// In front of what cuLinkComplete gave: the containers of the linked parts
/// follow, and are what is loaded.
struct linked_header {
  static constexpr std::uint32_t the_magic = 0x4B4C4756; // "VGLK"
  std::uint32_t magic = the_magic;
  std::uint32_t version = 1;
  std::uint64_t bytes = 0; // behind this
};

/// An image in the program's memory, or put together from several places there.
struct image_view {
  image_kind kind = image_kind::ptx;
  std::span<const std::byte> bytes;
  std::shared_ptr<const std::vector<std::byte>> joined{}; // owns the bytes
};

/// Finds out what lies at `image`: a fatbin's wrapper (which is followed; of a
/// program that was linked on the device, the containers of its parts come
/// behind that of the whole, each at a multiple of 8 bytes), a fatbin
/// container, a cubin, an image that was linked at run time, or PTX text that
/// ends with a NUL. At most `limit` bytes
/// are looked at where the caller knows where the memory ends.
///
/// CUDA_ERROR_INVALID_IMAGE for anything else, and for an image whose own
/// lengths lead out of `limit` or into memory that cannot be read. The bytes
/// may be anything; the pointer must be readable where it points.
result<image_view>
view_image(const void* image,
           std::uint64_t limit = std::numeric_limits<std::uint64_t>::max());

/// Whether [at, at + bytes) can be read in this process, as far as the kernel
/// tells without being asked to read it.
bool is_readable(const void* at, std::uint64_t bytes) noexcept;

} // namespace vgpu::interposer
