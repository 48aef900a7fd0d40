// Copies and fills of pitched boxes of memory (device.hpp: pitched, extent).
#pragma once

#include "devices/interface/device.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace vgpu::device::cpu {

/// Returns the number of bytes from the first to the last, inclusive, that a
/// box touches, or nothing where that overflows. An empty box has 0 bytes.
std::optional<std::uint64_t> span_of(const pitched& at, const extent& size);

/// Copies row by row. Rows of the two boxes may overlap.
void copy_box(const pitched& to, const pitched& from, const extent& size);

/// Fills rows with an element of 1, 2 or 4 bytes. The width counts elements,
/// and the box is not empty.
void fill_box(const pitched& to, const extent& size, std::uint32_t value,
              std::uint32_t element_bytes);

} // namespace vgpu::device::cpu
