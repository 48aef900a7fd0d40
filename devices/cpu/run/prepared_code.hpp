// Code of modules that were compiled before they are loaded.
#pragma once

#include "devices/cpu/lower/lowering.hpp"
#include "devices/cpu/ptx/ptx_ast.hpp"
#include "devices/interface/preparation_unit.hpp"
#include "schema/base/jit_settings.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace vgpu::device::cpu {

/// Holds a module's text as a tree, perhaps without the bodies of functions,
/// and its program, which is right for these addresses of its variables only.
struct compiled_code {
  ptx::module source;
  symbol_addresses addresses;
  std::shared_ptr<const program> code;
};

/// Holds code whose variables have their addresses, in [begin, end).
struct placed_code : compiled_code {
  device_address begin = 0, end = 0;
};

/// Keeps code from its compilation until its load. It finds code by the image's
/// bytes and the settings, never by a name that somebody gave. Not thread-safe.
class prepared_code {
public:
  bool empty() const noexcept { return kept_.empty(); }
  void add(std::span<const std::byte> image, const jit_settings& how,
           compiled_code code);
  /// Returns the code of an image, and the one that was added first where there
  /// are several, as they are loaded in this order.
  std::optional<compiled_code> take(std::span<const std::byte> image,
                                    const jit_settings& how);
  /// Records that a load needed no compilation.
  void note_used() noexcept { ++counts_.used; }
  /// Drops everything, and begins to count anew.
  preparation_unit::counts forget();

private:
  struct entry {
    std::array<std::uint64_t, 2> image; // a hash of its bytes
    std::uint64_t bytes = 0;            // of the image
    jit_settings how;
    compiled_code code;
  };

  std::vector<entry> kept_;
  preparation_unit::counts counts_;
};

} // namespace vgpu::device::cpu
