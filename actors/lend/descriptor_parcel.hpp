// Many descriptors that travel as one.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/log/session_area.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace vgpu {

/// Gives the largest number of descriptors in a parcel.
inline constexpr std::size_t most_in_parcel = 8192;

/// Packs copies of these descriptors into a socket, the parcel. The parcel can
/// be passed on as any descriptor can, and its contents end with its last
/// holder. Fails where they are too many, or where the kernel lets this user
/// send no more of them.
result<unique_fd> pack_descriptors(std::span<const int> what);

/// Takes all descriptors out, in order, and leaves the parcel empty. Fails
/// where it does not hold exactly `count`; the descriptors that came out are
/// closed.
result<std::vector<unique_fd>> unpack_descriptors(int parcel,
                                                  std::size_t count);

/// Makes a second parcel of the same contents.
result<unique_fd> copy_parcel(unique_fd& parcel, std::size_t count);

} // namespace vgpu
