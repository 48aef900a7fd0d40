// Finding entry points by name and version.
#pragma once

#include "schema/catalogue/catalogue.hpp"

#include <string_view>

namespace vgpu::interposer {

enum class lookup : std::uint8_t { found, unknown_name, version_too_old };

struct lookup_result {
  lookup status = lookup::unknown_name;
  /// This is set where the status is `found`.
  const catalogue_entry* entry = nullptr;
};

/// Finds the newest form of a call that `version` (12040 for CUDA 12.4) already
/// had. With `per_thread` it is the per-thread form where there is one.
lookup_result look_up(std::string_view name, int version,
                      bool per_thread) noexcept;

} // namespace vgpu::interposer
