// Finding entry points by name and version.
#pragma once

#include "schema/catalogue/catalogue.hpp"

#include <string_view>

namespace vgpu::interposer {

enum class lookup : std::uint8_t { found, unknown_name, version_too_old };

struct lookup_result {
  lookup status = lookup::unknown_name;
  /// Set where the status is `found`.
  const catalogue_entry* entry = nullptr;
};

/// Returns the newest form of a call that already existed in `version` (12040
/// for CUDA 12.4). With `per_thread` it returns the per-thread form where that
/// exists.
lookup_result look_up(std::string_view name, int version,
                      bool per_thread) noexcept;

} // namespace vgpu::interposer
