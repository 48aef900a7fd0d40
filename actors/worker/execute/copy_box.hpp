// The boxes of copies and memsets, row by row.
#pragma once

#include "actors/worker/execute/dispatch_context.hpp"
#include "schema/catalogue/calls.hpp"

#include <cstdint>

namespace vgpu {

/// Refuses a box that lies neither in allocated memory of one of the session's
/// devices nor in its host memory.
status audit_box(const dispatch_context& on, const call::box& box,
                 const call::extent& size);

inline std::uint64_t rows(const call::extent& size) {
  return size.height * size.depth;
}
inline device::pitched pitched(const call::box& x) {
  return {x.address, x.pitch, x.slice};
}
inline device::extent extent(const call::extent& x) {
  return {x.width, x.height, x.depth};
}
/// Returns whether all of a box is one row.
inline bool is_flat(const call::box& box, const call::extent& size) {
  return (size.height == 1 || box.pitch == size.width) &&
         (size.depth == 1 || box.slice == size.width * size.height);
}

/// Calls `f(address, offset, bytes, last)` for each row of a box. `offset`
/// counts the bytes of the rows before. Rows that follow each other without
/// gaps are one row.
template <class F>
status each_row(const call::box& box, const call::extent& size, F f) {
  if (size.width == 0 || rows(size) == 0)
    return {};
  if (is_flat(box, size))
    return f(box.address, std::uint64_t{0}, size.width * rows(size), true);
  std::uint64_t offset = 0;
  for (std::uint64_t z = 0; z < size.depth; ++z)
    for (std::uint64_t y = 0; y < size.height; ++y) {
      auto last = z + 1 == size.depth && y + 1 == size.height;
      auto ok = f(box.address + z * box.slice + y * box.pitch, offset,
                  size.width, last);
      if (!ok)
        return ok;
      offset += size.width;
    }
  return {};
}

} // namespace vgpu
