#pragma once

#include "schema/base/enum_names.hpp"

#include <cstdint>

namespace vgpu {

/// Names a fault that is injected for tests and demonstrations.
enum class injected_fault : std::uint8_t {
  /// Every call and every completion of the device fails from now on.
  lost,
  /// The device completes nothing any more, and reports nothing.
  hang,
  /// The device reports an uncorrectable error of its memory.
  ecc,
};

inline constexpr enum_names<injected_fault, 3> injected_fault_names{{
    {injected_fault::lost, "lost"},
    {injected_fault::hang, "hang"},
    {injected_fault::ecc, "ecc"},
}};
static_assert(is_complete(injected_fault_names, injected_fault::ecc));

/// Returns the text for the command line, the wire and the log.
constexpr const char* name_of(injected_fault x) noexcept {
  return text_in(injected_fault_names, x);
}

} // namespace vgpu
