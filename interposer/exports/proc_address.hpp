// Finding entry points by name and version.
#pragma once

#include "schema/catalogue/catalogue.hpp"

#include <string_view>

namespace vgpu::interposer {

enum class lookup : std::uint8_t { found, unknown_name, version_too_old };

struct lookup_result {
  lookup status = lookup::unknown_name;
  const catalogue_entry* entry = nullptr; ///< where found
};

/// The newest form of the call that `version` (12040 for CUDA 12.4) already
/// had; its per-thread form where there is one and it is wanted.
lookup_result look_up(std::string_view name, int version,
                      bool per_thread) noexcept;

} // namespace vgpu::interposer
