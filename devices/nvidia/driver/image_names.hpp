// What an image names: the driver tells a module's kernels, but not its
// variables.
#pragma once

#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace vgpu::device::nvidia {

struct image_names {
  /// What may be a variable of the module: those that are, and some more.
  std::set<std::string> variables;
  /// Whether its kernels may print.
  bool prints = false;
  /// Whether they may call malloc.
  bool allocates = false;
};

/// Reads a fatbin container, a cubin or PTX text. The bytes may be hostile; of
/// what is no image nothing is told.
image_names names_of(std::span<const std::byte> image);

} // namespace vgpu::device::nvidia
