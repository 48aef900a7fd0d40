// Many descriptors that travel as one.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/log/session_area.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace vgpu {

/// Of no parcel there are more in it.
inline constexpr std::size_t most_in_parcel = 8192;

/// A socket in which copies of these descriptors lie: it can be handed on as
/// any descriptor can, and what is in it goes with its last holder. A fault
/// where they are too many, or the kernel lets this user send no more of them.
result<unique_fd> pack_descriptors(std::span<const int> what);

/// Takes out what is in it, in order; then it is empty. A fault where that are
/// not so many: what came out until then is closed.
result<std::vector<unique_fd>> unpack_descriptors(int parcel,
                                                  std::size_t count);

/// Another parcel of the same contents.
result<unique_fd> copy_parcel(unique_fd& parcel, std::size_t count);

} // namespace vgpu
