// Reading the code of an image, which a program hands to the driver.
#pragma once

#include "schema/base/fault.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace vgpu::device {

/// Returns the PTX texts to compile for compute capability `arch` (90 for 9.0)
/// from a fatbin container, an ELF cubin or plain PTX text. Of several PTX
/// entries it takes the one for the highest architecture that the device has.
/// The list is empty when the image holds no code at all (a device-link
/// container).
///
/// The list has several texts, which the caller links, when the program was
/// compiled in parts (nvcc -rdc): the containers of the parts follow the
/// container of the linked machine code.
///
/// The bytes may be hostile, so every access is checked against their end.
/// Returns CUDA_ERROR_INVALID_IMAGE for bytes that are no image, and
/// CUDA_ERROR_NO_BINARY_FOR_GPU for an image without PTX that this device can
/// run.
result<std::vector<std::string>> ptx_of(std::span<const std::byte> image,
                                        unsigned arch);

/// Returns the fatbin containers of an image, which follow each other at
/// multiples of 8 bytes. A program that was linked on the device has the
/// container of the whole and then those of its parts. The list is empty where
/// the image is no fatbin.
std::vector<std::span<const std::byte>>
containers_of(std::span<const std::byte> image);

/// Holds one piece of code of an image, unpacked.
struct image_part {
  enum class form { ptx, elf };
  form kind = form::ptx;
  std::string code;
  /// The name that messages give it, or empty.
  std::string name = {};
};

/// Returns all PTX and machine code of an image, for every architecture.
result<std::vector<image_part>> parts_of(std::span<const std::byte> image);

/// Returns the machine code that a driver loads on a device of compute
/// capability `arch` (90 for 9.0), without unpacking the rest: that for exactly
/// this architecture. Where the image has no such code, the driver may compile
/// PTX or load code for a lower one, and this returns all of parts_of().
result<std::vector<image_part>> parts_for(std::span<const std::byte> image,
                                          unsigned arch);

} // namespace vgpu::device
