// The code in what a program hands to the driver as an image.
#pragma once

#include "schema/base/fault.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace vgpu::device {

/// The PTX texts to compile for compute capability `arch` (90 for 9.0) out of
/// a fatbin container, an ELF cubin or plain PTX text. Of several PTX entries
/// the one for the highest architecture that the device has is taken. None when
/// the image holds no code at all (a device-link container).
///
/// There are several when the program was compiled in parts (nvcc -rdc): the
/// container of the linked machine code is then followed by those of the parts,
/// whose texts are to be linked.
///
/// The bytes may be hostile; everything is checked against their end.
/// CUDA_ERROR_INVALID_IMAGE: not an image. CUDA_ERROR_NO_BINARY_FOR_GPU: an
/// image without PTX that this device can run.
result<std::vector<std::string>> ptx_of(std::span<const std::byte> image,
                                        unsigned arch);

/// The fatbin containers of an image, one behind the other at multiples of 8
/// bytes: of a program that was linked on the device, the whole and then its
/// parts. None where it is no fatbin.
std::vector<std::span<const std::byte>>
containers_of(std::span<const std::byte> image);

/// One piece of code of an image, unpacked.
struct image_part {
  enum class form { ptx, elf };
  form kind = form::ptx;
  std::string code;
};

/// All PTX and machine code of an image, for whatever device.
result<std::vector<image_part>> parts_of(std::span<const std::byte> image);

} // namespace vgpu::device
