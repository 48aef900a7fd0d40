// Names in an image. The driver lists a module's kernels but not its variables,
// so their names come from the image.
#pragma once

#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace vgpu::device::nvidia {

/// Holds the names that an image contains.
struct image_names {
  /// Contains the names of all variables of the module, and of some other
  /// symbols.
  std::set<std::string> variables;
  /// The kernels of the module may print.
  bool prints = false;
  /// The kernels of the module may call malloc.
  bool allocates = false;
};

/// Reads what a device of compute capability `arch` (90 for 9.0) may load of a
/// fatbin container, a cubin or PTX text. The bytes may be hostile. The result
/// is empty for bytes that are no image.
image_names names_of(std::span<const std::byte> image, unsigned arch);

} // namespace vgpu::device::nvidia
