// Optional interface of a device: compiling modules before they are loaded.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/base/jit_settings.hpp"

#include <cstddef>
#include <span>

namespace vgpu::device {

/// A device that can compile modules in advance implements this interface. As
/// with `device`, one thread at a time calls it.
class preparation_unit {
public:
  virtual ~preparation_unit() = default;

  /// Says how many modules were compiled in advance, and how many loads took
  /// their code from that.
  struct counts {
    std::size_t prepared = 0;
    std::size_t used = 0;
  };

  /// Compiles an image for a later load_module() with the same settings, as if
  /// the images of the calls before had been loaded in this order. It loads and
  /// places nothing, and takes no device memory. A load compiles again where
  /// the module gets another place than was expected.
  virtual status prepare_module(std::span<const std::byte> image,
                                const jit_settings& how) = 0;
  /// Drops all code that no load has taken.
  virtual counts forget_prepared() = 0;
};

} // namespace vgpu::device
