// Memory that a session's former worker on this host lends.
#pragma once

#include "schema/log/session_area.hpp"

#include <cstdint>

namespace vgpu {

/// Holds the memory that a state lends, as it comes to a prepared worker.
struct lent_parcel {
  /// Says which state this is.
  std::uint64_t position = 0;
  /// Holds its descriptors (descriptor_parcel.hpp), or nothing.
  unique_fd parcel{};
};

} // namespace vgpu
